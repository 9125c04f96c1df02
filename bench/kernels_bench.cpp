// The CPU attention: every variant against our own plain, probes against none, 16-bit storage
// against float32, and the share of the multiply-add peak measured in the same run. Medians of
// interleaved runs, one process, random data. "and backward" is the forward pass and the backward
// one after it. PyTorch's attention is the worker's rival (`phasescope bench kernels`); this
// program has no torch.
//
//   kernels_bench [tokens] [head_dim] [heads] [rounds] [case] [row] [tuning]     (defaults 2048 64
//   4 7)
//
// A case is one of those printed, measured alone beside plain; row: floats from one row of q, k and
// v to the next, as a model of that width lays them out (0: rows of a head one behind the other);
// tuning: letters of what the forward pass does beside (tuning.h): f fetches ahead, v packs values,
// - does neither; without it what the processor has.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cpu/storage.h"
#include "kernels/cpu/tuning.h"
#include "kernels/fma_peak.h"

namespace {

using namespace phasescope::kernels;

/// Arrays of one problem; variants share q, k, v.
struct Data {
  Data(std::int64_t tokens, std::int64_t dim, std::int64_t heads, std::int64_t row)
      : n(tokens), d(dim), h(heads), width(row) {
    const std::int64_t numbers = width > 0 ? n * width : h * n * d;
    q = draw(numbers);
    k = draw(numbers);
    v = draw(numbers);
    state = draw(h * n * d);
    d_out = draw(h * n * d);
    // Slopes as ALiBi has them: a bias that grows towards the diagonal raises the rows' maxima.
    for (std::int64_t head = 1; head <= h; ++head) {
      const float slope = -0.1f * static_cast<float>(head) / static_cast<float>(h);
      for (std::int64_t t = 0; t < n; ++t) table.push_back(slope * static_cast<float>(t));
    }
    for (std::int64_t t = 0; t < n; ++t) {
      power.push_back(6.2831853f * std::pow(static_cast<float>(t), 0.1f));
    }
    w1 = draw(32 * 2 * h);
    b1 = draw(32);
    w2 = draw(h * 32);
    b2 = draw(h);
    make_fire();
    out.resize(state.size());
    out_state.resize(state.size());
    lse.resize(static_cast<std::size_t>(h * n));
    entropy = max_score = top1 = first = distance = lse;
    window_mass.assign(kMaxWindows, lse);
    max_key.resize(lse.size());
    dq = dk = dv = state;
    d_state = state;
    d_table = table;
    d_w1 = w1;
    d_b1 = b1;
    d_w2 = w2;
    d_b2 = b2;
    d_fire_distance = fire_distance;
    d_fire_factor = fire_factor;
    d_fire_slope = fire_slope;
    d_fire_intercept = fire_intercept;
  }

  /// A network of 32 hidden units over u in 0..1; a quarter of the text within FIRE's threshold.
  void make_fire() {
    const auto bend = [](std::int64_t t) { return std::log(0.1f * static_cast<float>(t) + 1); };
    for (std::int64_t t = 0; t < n; ++t) {
      fire_distance.push_back(bend(t));
      fire_factor.push_back(1 / (bend(std::max(t, n / 4)) + 1e-6f));
    }
    for (std::int64_t knot = 1; knot <= kKnots; ++knot) {
      fire_knots.push_back(static_cast<float>(knot) / (kKnots + 1));
    }
    fire_slope = draw(h * (kKnots + 1));
    for (std::int64_t head = 0; head < h; ++head) {
      const float* slope = fire_slope.data() + head * (kKnots + 1);
      fire_intercept.push_back(0);
      for (std::int64_t knot = 0; knot < kKnots; ++knot) {  // the pieces meet
        fire_intercept.push_back(fire_intercept.back() +
                                 (slope[knot] - slope[knot + 1]) *
                                     fire_knots[static_cast<std::size_t>(knot)]);
      }
    }
  }

  FireVariant fire() const {
    return {fire_distance.data(),  n,          fire_factor.data(),
            fire_knots.data(),     kKnots + 1, fire_slope.data(),
            fire_intercept.data(), kKnots + 1};
  }

  std::vector<float> draw(std::int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = normal(engine);
    return values;
  }

  InputTensor tensor(const float* data, std::int64_t dim) const {
    return {data, h * n * dim, n * dim, dim};
  }
  /// q, k and v.
  InputTensor input(const float* data) const {
    return width > 0 ? InputTensor{data, n * width, d, width} : tensor(data, d);
  }
  OutputTensor tensor(float* data, std::int64_t dim) const {
    return {data, h * n * dim, n * dim, dim};
  }

  /// The tensors of one call that grow with the text, in 16 bits. Random bits would be NaNs.
  struct Narrow {
    std::vector<std::uint16_t> q, k, v, d_out, out, dq, dk, dv;
  };
  Narrow& narrow(Storage storage) {
    Narrow& numbers = storage == Storage::bfloat16 ? bfloats : halves;
    if (!numbers.q.empty()) return numbers;
    const auto round = [&](const std::vector<float>& from) {
      std::vector<std::uint16_t> bits(from.size());
      write_numbers(storage, from.data(), static_cast<std::int64_t>(from.size()), bits.data());
      return bits;
    };
    numbers = {round(q), round(k), round(v), round(d_out), round(out), {}, {}, {}};
    numbers.dq = numbers.dk = numbers.dv = numbers.q;
    return numbers;
  }

  void run_narrow(Storage storage, const Variant& variant, bool with_backward) {
    Narrow& numbers = narrow(storage);
    const auto put = [&](auto& tensor, std::vector<std::uint16_t>& bits) {
      tensor.data = bits.data();
      tensor.storage = storage;
    };
    AttentionInputs in = inputs(variant);
    put(in.q, numbers.q);
    put(in.k, numbers.k);
    put(in.v, numbers.v);
    ForwardOutputs o = outputs();
    put(o.out, numbers.out);
    attention_forward(in, o);
    if (!with_backward) return;
    SavedForward s = saved();
    put(s.out, numbers.out);
    put(s.d_out, numbers.d_out);
    Gradients g = gradients({});
    put(g.dq, numbers.dq);
    put(g.dk, numbers.dk);
    put(g.dv, numbers.dv);
    attention_backward(in, s, g);
  }

  AttentionInputs inputs(const Variant& variant) const {
    AttentionInputs in;
    in.shape = {1, h, h, n, n, d};
    in.q = input(q.data());
    in.k = input(k.data());
    in.v = input(v.data());
    in.scale = 1 / std::sqrt(static_cast<float>(d));
    in.variant = variant;
    return in;
  }

  ForwardOutputs outputs() {
    ForwardOutputs o;
    o.out = tensor(out.data(), d);
    o.out_state = tensor(out_state.data(), d);
    o.lse = lse.data();
    return o;
  }

  RowProbes rows() {
    RowProbes r;
    r.entropy = entropy.data();
    r.max_score = max_score.data();
    r.max_key = max_key.data();
    r.top1_mass = top1.data();
    for (std::size_t w = 0; w < kMaxWindows; ++w) r.window_mass[w] = window_mass[w].data();
    r.first_key_weight = first.data();
    r.mean_distance = distance.data();
    return r;
  }

  /// As the analyses ask: every distance to 2048 by itself, then 32 buckets an octave.
  BucketProbes buckets() {
    if (edges.empty()) {
      for (std::int64_t edge = 0; edge < std::min<std::int64_t>(n, 2048); ++edge) {
        edges.push_back(edge);
      }
      for (double edge = 2048; edge < static_cast<double>(n); edge *= std::exp2(1.0 / 32)) {
        edges.push_back(static_cast<std::int64_t>(edge));
      }
      edges.push_back(n);
    }
    const std::size_t count = edges.size() - 1;
    bucket_pairs.resize(static_cast<std::size_t>(h) * count);
    bucket_weight.resize(bucket_pairs.size());
    for (auto* sums : {&bucket_score, &bucket_square, &bucket_content, &bucket_content_square,
                       &bucket_term, &bucket_term_square}) {
      sums->resize(bucket_pairs.size());
    }
    return {.edges = edges.data(),
            .count = static_cast<std::int64_t>(count),
            .pairs = bucket_pairs.data(),
            .weight = bucket_weight.data(),
            .score = bucket_score.data(),
            .score_square = bucket_square.data()};
  }

  BucketProbes buckets_with_content() {
    BucketProbes b = buckets();
    b.content = bucket_content.data();
    b.content_square = bucket_content_square.data();
    return b;
  }

  BucketProbes buckets_with_term() {
    BucketProbes b = buckets_with_content();
    b.term = bucket_term.data();
    b.term_square = bucket_term_square.data();
    return b;
  }

  RowProbes top_keys(std::int64_t count) {
    top_key.resize(lse.size() * static_cast<std::size_t>(count));
    top_weight.resize(top_key.size());
    RowProbes r;
    r.top_count = count;
    r.top_key = top_key.data();
    r.top_weight = top_weight.data();
    return r;
  }

  Gradients gradients(const VariantGradients& variant) {
    return {tensor(dq.data(), d), tensor(dk.data(), d), tensor(dv.data(), d), variant};
  }

  SavedForward saved() const {
    return {tensor(out.data(), d), tensor(out_state.data(), d), lse.data(),
            tensor(d_out.data(), d)};
  }

  static constexpr std::int64_t kKnots = 32;

  std::int64_t n, d, h, width;
  std::mt19937 engine{1};
  std::vector<float> q, k, v, state, d_out, table, power, w1, b1, w2, b2, out, out_state, lse;
  std::vector<float> fire_distance, fire_factor, fire_knots, fire_slope, fire_intercept;
  std::vector<float> entropy, max_score, top1, first, distance, top_weight;
  std::vector<std::vector<float>> window_mass;
  std::vector<std::int32_t> max_key, top_key;
  std::vector<std::int64_t> edges, bucket_pairs;
  std::vector<double> bucket_weight, bucket_score, bucket_square, bucket_content;
  std::vector<double> bucket_content_square, bucket_term, bucket_term_square;
  Narrow bfloats, halves;
  std::vector<float> dq, dk, dv, d_state, d_table, d_w1, d_b1, d_w2, d_b2;
  std::vector<float> d_fire_distance, d_fire_factor, d_fire_slope, d_fire_intercept;
};

struct Entry {
  std::string name;
  std::function<void()> run;
  std::string base;  ///< the entry its time is divided by
  double flops;      ///< of the plain products alone
  std::vector<double> seconds;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Processor time of the whole process: on a busy machine nearer the truth than the clock.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

const std::string kAndBackward = " and backward";
constexpr std::size_t kPlain = 0, kTable = 1, kCape = 4;  // in the list of variants

std::vector<Entry> entries(Data& data) {
  const std::int64_t n = data.n, d = data.d;
  const float half = 1 / std::sqrt(static_cast<float>(d / 2));
  const std::vector<std::pair<std::string, Variant>> variants{
      {"plain", PlainVariant{}},
      {"table", TableVariant{data.table.data(), n, n, 0}},
      {"tapa", TapaVariant{d / 2, half, half, TapaPhase::quadratic, data.power.data(), n}},
      {"tape", TapeVariant{data.tensor(std::as_const(data.state).data(), d), d}},
      {"cape", CapeVariant{CapeForm::concat_residual, data.table.data(), n, n, 32, data.w1.data(),
                           data.b1.data(), data.w2.data(), data.b2.data()}},
      {"fire", data.fire()}};
  const std::vector<VariantGradients> gradients{
      {},
      TableGradients{data.d_table.data(), n},
      {},
      TapeGradients{{}, data.tensor(data.d_state.data(), d)},
      CapeGradients{data.d_table.data(), n, data.d_w1.data(), data.d_b1.data(), data.d_w2.data(),
                    data.d_b2.data()},
      FireGradients{data.d_fire_distance.data(), data.d_fire_factor.data(),
                    data.d_fire_slope.data(), data.d_fire_intercept.data(), Data::kKnots + 1}};
  // Two products of n^2 / 2 pairs forward, five backward.
  const double pairs = 0.5 * static_cast<double>(n * (n + 1) * data.h);
  const double forward = 4 * pairs * static_cast<double>(d);
  std::vector<Entry> list;
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const AttentionInputs in = data.inputs(variants[v].second);
    list.push_back({variants[v].first,
                    [&data, in] { attention_forward(in, data.outputs()); },
                    "plain",
                    forward,
                    {}});
    list.push_back({variants[v].first + kAndBackward,
                    [&data, in, g = gradients[v]] {
                      attention_forward(in, data.outputs());
                      attention_backward(in, data.saved(), data.gradients(g));
                    },
                    "plain" + kAndBackward,
                    forward * 3.5,
                    {}});
  }
  for (const auto& [name, storage] :
       {std::pair{"bfloat16", Storage::bfloat16}, std::pair{"float16", Storage::float16}}) {
    for (const std::size_t v : {kPlain, kCape}) {
      const auto& [variant_name, variant] = variants[v];
      for (const bool backward : {false, true}) {
        const std::string base = variant_name + (backward ? kAndBackward : "");
        list.push_back(
            {base + ", " + name,
             [&data, storage, variant, backward] { data.run_narrow(storage, variant, backward); },
             base,
             forward * (backward ? 3.5 : 1),
             {}});
      }
    }
  }
  // Probes of a variant, `wanted` of them.
  const auto probes = [&](std::size_t v, const std::string& name, const auto& wanted) {
    list.push_back({variants[v].first + ", " + name,
                    [&data, in = data.inputs(variants[v].second), wanted] {
                      ForwardOutputs o = data.outputs();
                      wanted(o);
                      attention_forward(in, o);
                    },
                    variants[v].first,
                    forward,
                    {}});
  };
  probes(kPlain, "row probes", [&data](ForwardOutputs& o) { o.rows = data.rows(); });
  probes(kPlain, "buckets", [&data](ForwardOutputs& o) { o.buckets = data.buckets(); });
  probes(kPlain, "all probes", [&data](ForwardOutputs& o) {
    o.rows = data.rows();
    o.buckets = data.buckets();
  });
  for (const std::size_t v : {kTable, kCape}) {
    probes(v, "buckets", [&data](ForwardOutputs& o) { o.buckets = data.buckets(); });
    probes(v, "and content",
           [&data](ForwardOutputs& o) { o.buckets = data.buckets_with_content(); });
    probes(v, "content and term",
           [&data](ForwardOutputs& o) { o.buckets = data.buckets_with_term(); });
  }
  for (const std::size_t v : {kPlain, kTable}) {
    for (const std::int64_t count : {8, 32}) {
      probes(v, std::to_string(count) + " top keys",
             [&data, count](ForwardOutputs& o) { o.rows = data.top_keys(count); });
    }
  }
  return list;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int n, long fallback) {
    return argc > n ? std::atol(argv[n]) : fallback;
  };
  Data data(argument(1, 2048), argument(2, 64), argument(3, 4), argument(6, 0));
  const long rounds = argument(4, 7);
  if (const std::string letters = argc > 7 ? argv[7] : ""; !letters.empty()) {
    const auto has = [&](char letter) { return letters.find(letter) != std::string::npos; };
    set_forward_tuning(ForwardTuning{has('f'), has('v')});
  }
  std::vector<Entry> list = entries(data);
  if (const std::string wanted = argc > 5 ? argv[5] : ""; !wanted.empty()) {
    const auto found = std::find_if(list.begin(), list.end(),
                                    [&](const Entry& entry) { return entry.name == wanted; });
    const std::string base = found == list.end() ? "" : found->base;
    std::erase_if(list, [&](const Entry& e) { return e.name != wanted && e.name != base; });
  }
  for (long r = 0; r < rounds; ++r) {
    for (Entry& entry : list) {
      const double start = cpu_seconds();
      entry.run();
      entry.seconds.push_back(cpu_seconds() - start);
    }
  }
  const double peak = fma_peak(1);
  std::printf(
      "%s, %ld tokens, head dimension %ld, %ld heads, causal, float32; medians of %ld "
      "interleaved runs of processor time; multiply-add peak of a core %.1f GFLOP/s\n",
      attention_target(), static_cast<long>(data.n), static_cast<long>(data.d),
      static_cast<long>(data.h), rounds, peak * 1e-9);
  std::printf("%-24s %10s %10s %8s %10s\n", "", "ms", "GFLOP/s", "of peak", "over base");
  for (const Entry& entry : list) {
    const auto base = std::find_if(list.begin(), list.end(),
                                   [&](const Entry& e) { return e.name == entry.base; });
    const double seconds = median(entry.seconds);
    std::printf("%-24s %10.3f %10.1f %7.0f%% %10.2f\n", entry.name.c_str(), seconds * 1e3,
                entry.flops / seconds * 1e-9, 100 * entry.flops / seconds / peak,
                seconds / median(base->seconds));
  }
  return 0;
}
