#pragma once
// A case of the CPU tests in a 16-bit type on the device: its inputs there, and what comes back.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/launchers.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/half_types.h"

namespace phasescope::kernels::testing {

struct HalfType : HalfFormat {
  const char* name;
  Storage storage;
};
inline const HalfType kTypes[] = {{half_type(Storage::bfloat16), "bfloat16", Storage::bfloat16},
                                  {half_type(Storage::float16), "float16", Storage::float16}};

/// Tests of a kind of problem on the device, in both 16-bit types by turns.
class KindOnDevice : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    std::string reason;
    if (!cuda_available(reason)) GTEST_SKIP() << reason;
  }
  const HalfType& next_type() { return kTypes[turn_++ % 2]; }

 private:
  std::size_t turn_ = static_cast<std::size_t>(GetParam());
};

/// Device memory of some values.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t count) : count_(count) {
    PHASESCOPE_CUDA(cudaMalloc(&data_, std::max<std::size_t>(count, 1) * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    PHASESCOPE_CUDA(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { EXPECT_EQ(cudaFree(data_), cudaSuccess) << "written outside"; }
  DeviceArray(DeviceArray&& other) noexcept { *this = std::move(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }

  T* data() const { return count_ ? data_ : nullptr; }
  std::vector<T> values() const {
    std::vector<T> result(count_);
    PHASESCOPE_CUDA(cudaMemcpy(result.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return result;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

/// A 16-bit tensor on the device.
class HalfArray {
 public:
  /// Rounds `values` in place, so that a reference reads the same numbers.
  HalfArray(const HalfType& type, std::span<float> values) : type_(type) {
    std::vector<std::uint16_t> bits;
    for (float& value : values) {
      bits.push_back(type.to(value));
      value = type.from(bits.back());
    }
    array_ = DeviceArray<std::uint16_t>(bits);
  }

  template <typename Void>
  Tensor4<Void> tensor(const Tensor4<Void>& strides) const {
    return {array_.data(), strides.batch, strides.head, strides.row, type_.storage};
  }
  std::vector<float> values() const {
    std::vector<float> result;
    for (const std::uint16_t bits : array_.values()) result.push_back(type_.from(bits));
    return result;
  }

 private:
  const HalfType& type_;
  DeviceArray<std::uint16_t> array_;
};

/// Whether cases run in Hopper form, which all have to take then.
inline bool in_hopper_form = false;

/// A kind of cases, and the form of the kernels.
struct KindInForm {
  Kind kind;
  bool hopper = false;
};
inline std::vector<KindInForm> in_form(bool hopper, const std::vector<Kind>& kinds) {
  std::vector<KindInForm> result;
  for (const Kind kind : kinds) result.push_back({kind, hopper});
  return result;
}
inline std::string name_of(const ::testing::TestParamInfo<KindInForm>& info) {
  return (info.param.hopper ? "hopper_" : "") + std::string(kind_name(info.param.kind));
}

inline std::vector<Kind> kinds_but_cape() {
  std::vector<Kind> kinds;
  for (const Kind kind : kinds_on_cuda()) {
    if (!is_cape(kind)) kinds.push_back(kind);
  }
  return kinds;
}

/// Cases of a kind in a form. Other forms follow on the same device.
class InForm : public ::testing::TestWithParam<KindInForm> {
 protected:
  void SetUp() override {
    std::string reason;
    if (!cuda_available(reason)) GTEST_SKIP() << reason;
    if (!GetParam().hopper) return;
#ifdef PHASESCOPE_CUDA_EMULATION
    emulated_capability = 90;
#endif
    if (cuda_capability() != 90) GTEST_SKIP() << "This device has no wgmma";
    in_hopper_form = true;
  }
  void TearDown() override {
    in_hopper_form = false;
#ifdef PHASESCOPE_CUDA_EMULATION
    emulated_capability = 80;
#endif
  }

  static Kind kind() { return GetParam().kind; }
};

/// Whether the backward pass of a kind has the Hopper form where its forward pass has.
inline bool has_hopper_backward(Kind kind) {
  return kind == Kind::plain || kind == Kind::table || kind == Kind::table_signed;
}

/// A case on the device.
class DeviceCase {
 public:
  DeviceCase(const HalfType& type, Case& c)
      : c_(c),
        q_(type, c.q),
        k_(type, c.k),
        v_(type, c.v),
        out_(type, c.out),
        out_state_(type, c.out_state),
        real_(c.real),
        query_documents_(c.query_documents),
        key_documents_(c.key_documents),
        document_workspace_(c.key_documents.empty() ? 0 : cuda_document_bytes(c.inputs.shape)),
        sinks_(c.sinks),
        lse_(c.lse.size()),
        d_out_(type, c.d_out),
        dq_(type, c.dq),
        dk_(type, c.dk),
        dv_(type, c.dv),
        d_sinks_(c.d_sinks.size()),
        query_bias_(c.query_bias),
        key_bias_(c.key_bias),
        query_factor_(c.query_factor),
        d_query_bias_(c.d_query_bias.size()),
        d_key_bias_(c.d_key_bias.size()),
        d_query_factor_(c.d_query_factor.size()),
        gate_(type, c.gate),
        ungated_(type, c.ungated),
        d_gate_(type, c.d_gate) {
    attention.hopper = in_hopper_form;
    attention.shape = c.inputs.shape;
    attention.scale = c.inputs.scale;
    attention.soft_cap = c.inputs.soft_cap;
    attention.sinks = sinks_.data();
    attention.tokens = {query_bias_.data(), key_bias_.data(), query_factor_.data()};
    attention.key_mask = real_.data();
    attention.query_documents = query_documents_.data();
    attention.key_documents = key_documents_.data();
    attention.document_workspace = document_workspace_.data();
    attention.q = q_.tensor(c.inputs.q);
    attention.k = k_.tensor(c.inputs.k);
    attention.v = v_.tensor(c.inputs.v);
    if (!c.gate.empty()) {
      attention.gate = gate_.tensor(c.inputs.gate);
      attention.gate_dim = c.inputs.gate_dim;
      outputs.ungated = ungated_.tensor(c.outputs.ungated);
    }
    put_variant(type);
    outputs.out = out_.tensor(c.outputs.out);
    outputs.out_state = out_state_.tensor(c.outputs.out_state);
    outputs.lse = lse_.data();
  }

  void forward() {
    const DeviceArray<char> scores(cuda_score_workspace(attention));
    outputs.score_workspace = scores.data();
    EXPECT_EQ(cuda_takes_hopper_form(attention), in_hopper_form);
    cuda_attention_forward(attention, outputs);
    PHASESCOPE_CUDA(cudaDeviceSynchronize());
    c_.out = out_.values();
    c_.out_state = out_state_.values();
    c_.lse = lse_.values();
    c_.ungated = ungated_.values();
  }

  /// Whether gradients are to come in Hopper form, of a kind that has them in it.
  void expect_hopper_backward() const {
    EXPECT_EQ(cuda_takes_hopper_backward(attention, saved()),
              in_hopper_form && cuda::one_pass(attention).units > 0);
  }

  /// After forward().
  void backward() {
    const DeviceArray<char> workspace(cuda_backward_workspace(attention));
    backward(gradients(workspace.data()));
  }
  void backward(const CudaGradients& gradients) {
    cuda_attention_backward(attention, saved(), gradients);
    PHASESCOPE_CUDA(cudaDeviceSynchronize());
    read_gradients();
  }

  /// What the backward pass reads of the forward pass, and where it writes.
  SavedForward saved() const {
    const HalfArray& out = c_.gate.empty() ? out_ : ungated_;
    return {out.tensor(c_.saved.out), out_state_.tensor(c_.saved.out_state), outputs.lse,
            d_out_.tensor(c_.saved.d_out)};
  }
  CudaGradients gradients(void* workspace) const {
    CudaGradients gradients;
    gradients.dq = dq_.tensor(c_.gradients.dq);
    gradients.dk = dk_.tensor(c_.gradients.dk);
    gradients.dv = dv_.tensor(c_.gradients.dv);
    gradients.workspace = workspace;
    gradients.variant = own_gradients_;
    gradients.sinks = d_sinks_.data();
    if (!c_.gate.empty()) gradients.gate = d_gate_.tensor(c_.gradients.gate);
    gradients.tokens = {d_query_bias_.data(), d_key_bias_.data(), d_query_factor_.data()};
    return gradients;
  }

  CudaAttention attention;
  CudaForwardOutputs outputs;

 private:
  void read_gradients() {
    c_.dq = dq_.values();
    c_.dk = dk_.values();
    c_.dv = dv_.values();
    for (const auto& read : own_results_) read();
    c_.d_sinks = d_sinks_.values();
    c_.d_gate = d_gate_.values();
    c_.d_query_bias = d_query_bias_.values();
    c_.d_key_bias = d_key_bias_.values();
    c_.d_query_factor = d_query_factor_.values();
  }

  template <class Array>
  const Array& keep(Array&& array) {
    const auto kept = std::make_shared<const Array>(std::move(array));
    kept_.push_back(kept);
    return *kept;
  }
  /// Puts device memory of the same numbers in the place of a variant's arrays.
  struct Upload {
    const HalfType& type;
    DeviceCase& to;

    template <typename Number>
    void operator()(const Number*& array, std::int64_t count) const {
      if (!array) return;
      array = to.keep(DeviceArray<Number>(std::vector<Number>(array, array + count))).data();
    }
    void operator()(InputTensor& tensor, const TensorSize& size) const {
      if (tensor.data) tensor = halves(tensor, size).tensor(tensor);
    }
    const HalfArray& halves(const InputTensor& tensor, const TensorSize& size) const {
      return to.keep(HalfArray(type, numbers_of(tensor, to.c_.inputs.shape.batch, size)));
    }
  };
  /// Likewise memory for gradients, which read_gradients() brings back.
  struct MakeRoom : Upload {
    using Upload::operator();

    void operator()(float*& array, std::int64_t count) const {
      if (!array) return;
      const auto& there = to.keep(DeviceArray<float>(static_cast<std::size_t>(count)));
      read_back(there, array);
      array = there.data();
    }
    void operator()(OutputTensor& tensor, const TensorSize& size) const {
      if (!tensor.data) return;
      const HalfArray& there =
          halves({tensor.data, tensor.batch, tensor.head, tensor.row, tensor.storage}, size);
      read_back(there, static_cast<float*>(tensor.data));
      tensor = there.tensor(tensor);
    }
    template <class Array>
    void read_back(const Array& there, float* host) const {
      to.own_results_.push_back([&there, host] { std::ranges::copy(there.values(), host); });
    }
  };
  void put_variant(const HalfType& type) {
    const AttentionShape& s = c_.inputs.shape;
    attention.variant = c_.inputs.variant;
    std::visit([&](auto& own) { own.arrays(own, s, Upload{type, *this}); }, attention.variant);
    own_gradients_ = c_.gradients.variant;
    std::visit(
        [&]<class Own>(Own& own) {
          if constexpr (!std::is_same_v<Own, std::monostate>) {
            const auto& of = std::get<typename Own::Of>(c_.inputs.variant);
            Own::arrays(own, of, s, MakeRoom{{type, *this}});
          }
        },
        own_gradients_);
  }

  Case& c_;
  HalfArray q_, k_, v_, out_, out_state_;
  DeviceArray<std::uint8_t> real_;
  DeviceArray<std::int32_t> query_documents_, key_documents_;
  DeviceArray<char> document_workspace_;
  DeviceArray<float> sinks_, lse_;
  HalfArray d_out_, dq_, dk_, dv_;
  DeviceArray<float> d_sinks_;
  DeviceArray<double> query_bias_, key_bias_;
  DeviceArray<float> query_factor_, d_query_bias_, d_key_bias_, d_query_factor_;
  HalfArray gate_, ungated_, d_gate_;
  std::vector<std::shared_ptr<const void>> kept_;  // of the variant and its gradients
  VariantGradients own_gradients_;
  std::vector<std::function<void()>> own_results_;  // reads them back
};

}  // namespace phasescope::kernels::testing
