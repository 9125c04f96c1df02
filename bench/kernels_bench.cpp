// The CPU attention: every variant against our own plain, probes against none, 16-bit storage
// against float32, and the share of the multiply-add peak measured in the same run. Medians of
// interleaved runs, one process, random data (kernels/problems/). "and backward" is the forward
// pass and the backward one after it. PyTorch's attention is the worker's rival (`phasescope bench
// kernels`); this program has no torch.
//
//   kernels_bench [tokens] [head_dim] [heads] [rounds] [case] [row] [tuning]     (defaults 2048 64
//   4 7)
//
// A case is one of those printed, measured alone beside plain; row: floats from one row of q, k and
// v to the next, as a model of that width lays them out (0: rows of a head one behind the other);
// tuning: letters of what the forward pass does beside (tuning.h): f fetches ahead, v packs values,
// - does neither; without it what the processor has.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cpu/storage.h"
#include "kernels/cpu/tuning.h"
#include "kernels/fma_peak.h"
#include "tests/kernels/case_probes.h"
#include "tests/kernels/cases.h"

namespace {

using namespace phasescope::kernels;
using testing::Case;
using testing::Kind;
using testing::kind_name;

struct Size {
  std::int64_t n, d, h;  // tokens, channels of a head, heads
  std::int64_t row;      // 0: of each head by itself
};

/// What is measured of a forward pass.
struct Wanted {
  bool maximum = false;  // and entropy, of the probes of a row
  bool rows = false, buckets = false, content = false, term = false;
  std::int64_t top_keys = 0;
};

/// As the analyses ask: every distance to 2048 by itself, then 32 buckets an octave.
std::vector<std::int64_t> bucket_edges(std::int64_t n) {
  std::vector<std::int64_t> edges;
  for (std::int64_t edge = 0; edge < std::min<std::int64_t>(n, 2048); ++edge) edges.push_back(edge);
  for (double edge = 2048; edge < static_cast<double>(n); edge *= std::exp2(1.0 / 32)) {
    edges.push_back(static_cast<std::int64_t>(edge));
  }
  edges.push_back(n);
  return edges;
}

/// A drawn case, its q, k and v laid out as asked, with memory for whatever can be measured.
class Measured {
 public:
  Measured(Kind kind, Storage storage, const Size& size)
      : case_(problem_of(kind, storage, size)),
        probes_(case_, bucket_edges(size.n), true, kMostTopKeys),
        all_(case_.outputs) {
    all_.rows.windows = {16, 64, 256};
    lay_out(case_.q, size, storage, case_.inputs.q);
    lay_out(case_.k, size, storage, case_.inputs.k);
    lay_out(case_.v, size, storage, case_.inputs.v);
    case_.gradients.scores = {};
  }

  void forward(const Wanted& wanted) {
    ForwardOutputs outputs = all_;
    if (!wanted.rows) outputs.rows = {};
    if (wanted.maximum) {
      outputs.rows.entropy = all_.rows.entropy;
      outputs.rows.max_score = all_.rows.max_score;
      outputs.rows.max_key = all_.rows.max_key;
    }
    outputs.rows.top_count = wanted.top_keys;
    outputs.rows.top_key = wanted.top_keys > 0 ? all_.rows.top_key : nullptr;
    outputs.rows.top_weight = wanted.top_keys > 0 ? all_.rows.top_weight : nullptr;
    if (!wanted.buckets) outputs.buckets = {};
    if (!wanted.content) outputs.buckets.content = outputs.buckets.content_square = nullptr;
    if (!wanted.term) outputs.buckets.term = outputs.buckets.term_square = nullptr;
    attention_forward(case_.inputs, outputs);
  }
  void backward() { attention_backward(case_.inputs, case_.saved, case_.gradients); }

 private:
  static constexpr std::int64_t kMostTopKeys = 32;

  /// Tables as ALiBi has them: a bias that grows towards the diagonal raises the rows' maxima.
  static testing::Problem problem_of(Kind kind, Storage storage, const Size& size) {
    testing::Problem problem{.kind = kind, .shape = {1, size.h, size.h, size.n, size.n, size.d}};
    problem.sloping_table = true;
    problem.knots = problem.hidden = 32;
    problem.state_dim = size.d;
    problem.storage = storage;
    return problem;
  }

  /// values: (tokens, heads, channels).
  void lay_out(const std::vector<float>& values, const Size& size, Storage storage,
               InputTensor& tensor) {
    const auto [n, d, h, row] = size;
    std::vector<float> laid(static_cast<std::size_t>(row > 0 ? n * row : h * n * d));
    const auto count = static_cast<std::int64_t>(laid.size());
    for (std::int64_t t = 0; t < n; ++t) {
      for (std::int64_t head = 0; head < h; ++head) {
        std::copy_n(values.data() + (t * h + head) * d, d,
                    laid.data() + (row > 0 ? t * row + head * d : (head * n + t) * d));
      }
    }
    auto& bytes =
        memory_.emplace_back(laid.size() * static_cast<std::size_t>(storage_bytes(storage)));
    write_numbers(storage, laid.data(), count, bytes.data());
    tensor = {bytes.data(), count, row > 0 ? d : n * d, row > 0 ? row : d, storage};
  }

  Case case_;
  testing::Probes probes_;
  ForwardOutputs all_;
  std::vector<std::vector<unsigned char>> memory_;
};

struct Entry {
  std::string name;
  Kind kind;
  std::string base;  ///< the entry its time is divided by
  Wanted wanted = {};
  bool and_backward = false;
  Storage storage = Storage::float32;
  std::vector<double> seconds = {};
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

constexpr const char* kAndBackward = " and backward";

std::vector<Entry> entries() {
  std::vector<Entry> list;
  for (const Kind kind :
       {Kind::plain, Kind::table, Kind::tapa, Kind::tape, Kind::cape, Kind::fire}) {
    const std::string name = kind_name(kind);
    list.push_back({name, kind, "plain"});
    list.push_back({name + kAndBackward, kind, std::string("plain") + kAndBackward, {}, true});
  }
  for (const auto& [words, storage] :
       {std::pair{", bfloat16", Storage::bfloat16}, std::pair{", float16", Storage::float16}}) {
    for (const Kind kind : {Kind::plain, Kind::cape}) {
      for (const bool backward : {false, true}) {
        const std::string base = kind_name(kind) + (backward ? kAndBackward : "");
        list.push_back({base + words, kind, base, {}, backward, storage});
      }
    }
  }
  const auto probes = [&](Kind kind, const std::string& words, const Wanted& wanted) {
    list.push_back({kind_name(kind) + ", " + words, kind, kind_name(kind), wanted});
  };
  probes(Kind::plain, "maximum, entropy", {.maximum = true});
  probes(Kind::plain, "row probes", {.rows = true});
  probes(Kind::plain, "buckets", {.buckets = true});
  probes(Kind::plain, "all probes", {.rows = true, .buckets = true});
  for (const Kind kind : {Kind::table, Kind::cape}) {
    probes(kind, "buckets", {.buckets = true});
    probes(kind, "and content", {.buckets = true, .content = true});
    probes(kind, "content and term", {.buckets = true, .content = true, .term = true});
  }
  for (const Kind kind : {Kind::plain, Kind::table}) {
    for (const std::int64_t count : {8, 32}) {
      probes(kind, std::to_string(count) + " top keys", {.top_keys = count});
    }
  }
  return list;
}

/// All of them or the one that is `wanted`, with what it is compared with.
std::vector<Entry> entries_for(const std::string& wanted) {
  std::vector<Entry> list = entries();
  if (wanted.empty()) return list;
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Entry& entry) { return entry.name == wanted; });
  const std::string base = found == list.end() ? "" : found->base;
  std::erase_if(list, [&](const Entry& e) { return e.name != wanted && e.name != base; });
  return list;
}

void measure(std::vector<Entry>& list, const Size& size, long rounds) {
  std::map<std::pair<Kind, Storage>, Measured> cases;
  for (const Entry& entry : list) {
    cases.try_emplace({entry.kind, entry.storage}, entry.kind, entry.storage, size);
  }
  for (long r = 0; r < rounds; ++r) {
    for (Entry& entry : list) {
      Measured& on = cases.at({entry.kind, entry.storage});
      const double start = cpu_seconds();
      on.forward(entry.wanted);
      if (entry.and_backward) on.backward();
      entry.seconds.push_back(cpu_seconds() - start);
    }
  }
}

void print(const std::vector<Entry>& list, const Size& size, long rounds) {
  const double peak = fma_peak(1);
  std::printf(
      "%s, %ld tokens, head dimension %ld, %ld heads, causal, float32; medians of %ld "
      "interleaved runs of processor time; multiply-add peak of a core %.1f GFLOP/s\n",
      attention_target(), static_cast<long>(size.n), static_cast<long>(size.d),
      static_cast<long>(size.h), rounds, peak * 1e-9);
  std::printf("%-24s %10s %10s %8s %10s\n", "", "ms", "GFLOP/s", "of peak", "over base");
  // Of the plain products alone: two of n^2 / 2 pairs forward, five backward.
  const double forward = 4 * 0.5 * static_cast<double>(size.n * (size.n + 1) * size.h * size.d);
  for (const Entry& entry : list) {
    const auto base = std::find_if(list.begin(), list.end(),
                                   [&](const Entry& e) { return e.name == entry.base; });
    const double seconds = median(entry.seconds);
    const double flops = forward * (entry.and_backward ? 3.5 : 1);
    std::printf("%-24s %10.3f %10.1f %7.0f%% %10.2f\n", entry.name.c_str(), seconds * 1e3,
                flops / seconds * 1e-9, 100 * flops / seconds / peak,
                seconds / median(base->seconds));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int n, long fallback) {
    return argc > n ? std::atol(argv[n]) : fallback;
  };
  const Size size{argument(1, 2048), argument(2, 64), argument(3, 4), argument(6, 0)};
  const long rounds = argument(4, 7);
  if (const std::string letters = argc > 7 ? argv[7] : ""; !letters.empty()) {
    const auto has = [&](char letter) { return letters.find(letter) != std::string::npos; };
    set_forward_tuning(ForwardTuning{has('f'), has('v')});
  }
  std::vector<Entry> list = entries_for(argc > 5 ? argv[5] : "");
  measure(list, size, rounds);
  print(list, size, rounds);
  return 0;
}
