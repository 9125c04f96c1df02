#pragma once
// A case of the CPU tests in a 16-bit type on the device: its inputs there, and what comes back.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
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
  HalfArray(const HalfType& type, std::vector<float>& values) : type_(type) {
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
        state_(type, c.state),
        out_(type, c.out),
        out_state_(type, c.out_state),
        table_(c.table),
        factor_(c.factor),
        knots_(c.knots),
        slope_(c.slope),
        intercept_(c.intercept),
        w1_(c.w1),
        b1_(c.b1),
        w2_(c.w2),
        b2_(c.b2),
        real_(c.real),
        query_documents_(c.query_documents),
        key_documents_(c.key_documents),
        document_workspace_(c.key_documents.empty() ? 0 : cuda_document_bytes(c.inputs.shape)),
        sinks_(c.sinks),
        lse_(c.lse.size()),
        d_out_(type, c.d_out),
        d_out_state_(type, c.d_out_state),
        dq_(type, c.dq),
        dk_(type, c.dk),
        dv_(type, c.dv),
        d_state_(type, c.d_state),
        d_table_(c.d_table.size()),
        d_factor_(c.d_factor.size()),
        d_slope_(c.d_slope.size()),
        d_intercept_(c.d_intercept.size()),
        d_w1_(c.d_w1.size()),
        d_b1_(c.d_b1.size()),
        d_w2_(c.d_w2.size()),
        d_b2_(c.d_b2.size()),
        d_sinks_(c.d_sinks.size()),
        query_bias_(c.query_bias),
        key_bias_(c.key_bias),
        query_factor_(c.query_factor),
        d_query_bias_(c.d_query_bias.size()),
        d_key_bias_(c.d_key_bias.size()),
        d_query_factor_(c.d_query_factor.size()),
        gate_(type, c.gate),
        ungated_(type, c.ungated),
        d_gate_(type, c.d_gate),
        far_q_(type, c.far_q),
        far_k_(type, c.far_k),
        d_far_q_(type, c.d_far_q),
        d_far_k_(type, c.d_far_k),
        limits_(c.limits) {
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
    attention.variant = variant();
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
    if (const auto* tape = std::get_if<TapeGradients>(&c_.gradients.variant)) {
      gradients.variant =
          TapeGradients{d_out_state_.tensor(tape->d_out_state), d_state_.tensor(tape->d_state)};
    } else if (const auto* table = std::get_if<TableGradients>(&c_.gradients.variant)) {
      gradients.variant = TableGradients{d_table_.data(), table->head_stride};
    } else if (std::holds_alternative<QueryTableGradients>(c_.gradients.variant)) {
      gradients.variant = QueryTableGradients{d_table_.data()};
    } else if (const auto* far = std::get_if<ClampGradients>(&c_.gradients.variant)) {
      gradients.variant = ClampGradients{d_far_q_.tensor(far->dq), d_far_k_.tensor(far->dk)};
    } else if (const auto* fire = std::get_if<FireGradients>(&c_.gradients.variant)) {
      gradients.variant = fire_gradients(*fire);
    } else if (const auto* cape = std::get_if<CapeGradients>(&c_.gradients.variant)) {
      gradients.variant = CapeGradients{cape->values ? d_table_.data() : nullptr,
                                        cape->head_stride,
                                        d_w1_.data(),
                                        d_b1_.data(),
                                        d_w2_.data(),
                                        d_b2_.data(),
                                        fire_gradients(cape->fire)};
    }
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
    c_.d_state = d_state_.values();
    c_.d_far_q = d_far_q_.values();
    c_.d_far_k = d_far_k_.values();
    if (writes_table()) c_.d_table = d_table_.values();
    c_.d_sinks = d_sinks_.values();
    c_.d_gate = d_gate_.values();
    c_.d_query_bias = d_query_bias_.values();
    c_.d_key_bias = d_key_bias_.values();
    c_.d_query_factor = d_query_factor_.values();
    c_.d_factor = d_factor_.values();
    c_.d_slope = d_slope_.values();
    c_.d_intercept = d_intercept_.values();
    c_.d_w1 = d_w1_.values();
    c_.d_b1 = d_b1_.values();
    c_.d_w2 = d_w2_.values();
    c_.d_b2 = d_b2_.values();
  }
  /// Whether the case's variant has gradients in d_table.
  bool writes_table() const {
    const auto* cape = std::get_if<CapeGradients>(&c_.gradients.variant);
    return std::holds_alternative<TableGradients>(c_.gradients.variant) ||
           std::holds_alternative<QueryTableGradients>(c_.gradients.variant) ||
           std::holds_alternative<FireGradients>(c_.gradients.variant) ||
           (cape && (cape->values || cape->fire.distance));
  }
  FireVariant fire_variant(const FireVariant& fire) const {
    FireVariant result = fire;
    result.distance = table_.data();
    result.factor = factor_.data();
    result.knots = knots_.data();
    result.slope = slope_.data();
    result.intercept = intercept_.data();
    return result;
  }
  FireGradients fire_gradients(const FireGradients& fire) const {
    if (!fire.distance) return {};
    return {d_table_.data(), d_factor_.data(), d_slope_.data(), d_intercept_.data(),
            fire.head_stride};
  }
  Variant variant() const {
    if (const auto* table = std::get_if<TableVariant>(&c_.inputs.variant)) {
      TableVariant result = *table;
      result.values = table_.data();
      return result;
    }
    if (const auto* tapa = std::get_if<TapaVariant>(&c_.inputs.variant)) {
      TapaVariant result = *tapa;
      result.power = table_.data();
      return result;
    }
    if (const auto* tape = std::get_if<TapeVariant>(&c_.inputs.variant)) {
      return TapeVariant{state_.tensor(tape->state), tape->state_dim};
    }
    if (const auto* fire = std::get_if<FireVariant>(&c_.inputs.variant)) {
      return fire_variant(*fire);
    }
    if (const auto* cape = std::get_if<CapeVariant>(&c_.inputs.variant)) {
      CapeVariant result = *cape;
      result.values = cape->values ? table_.data() : nullptr;
      if (cape->fire) result.fire = fire_variant(*cape->fire);
      result.w1 = w1_.data();
      result.b1 = b1_.data();
      result.w2 = w2_.data();
      result.b2 = b2_.data();
      return result;
    }
    if (const auto* table = std::get_if<QueryTableVariant>(&c_.inputs.variant)) {
      return QueryTableVariant{table_.data(), table->length};
    }
    if (const auto* clamp = std::get_if<ClampVariant>(&c_.inputs.variant)) {
      return ClampVariant{far_q_.tensor(clamp->q), far_k_.tensor(clamp->k), limits_.data()};
    }
    return PlainVariant{};
  }

  Case& c_;
  HalfArray q_, k_, v_, state_, out_, out_state_;
  DeviceArray<float> table_, factor_, knots_, slope_, intercept_, w1_, b1_, w2_, b2_;
  DeviceArray<std::uint8_t> real_;
  DeviceArray<std::int32_t> query_documents_, key_documents_;
  DeviceArray<char> document_workspace_;
  DeviceArray<float> sinks_, lse_;
  HalfArray d_out_, d_out_state_, dq_, dk_, dv_, d_state_;
  DeviceArray<float> d_table_, d_factor_, d_slope_, d_intercept_, d_w1_, d_b1_, d_w2_, d_b2_,
      d_sinks_;
  DeviceArray<double> query_bias_, key_bias_;
  DeviceArray<float> query_factor_, d_query_bias_, d_key_bias_, d_query_factor_;
  HalfArray gate_, ungated_, d_gate_;
  HalfArray far_q_, far_k_, d_far_q_, d_far_k_;
  DeviceArray<std::int64_t> limits_;
};

}  // namespace phasescope::kernels::testing
