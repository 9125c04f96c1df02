#include "analysis/questions/xray.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>
#include <numeric>
#include <set>
#include <utility>

#include "analysis/intervals/intervals.h"
#include "analysis/questions/by_distance.h"
#include "analysis/questions/common.h"
#include "analysis/tensors.h"
#include "analysis/text_pass.h"
#include "formats/error.h"
#include "model/attention/repairs.h"
#include "protocol/head_name.h"

namespace phasescope::analysis {
namespace {

using Head = std::pair<std::int64_t, std::int64_t>;  // layer, head
using Heads = std::set<Head>;
constexpr std::size_t kMostRepaired = 16;
constexpr std::int64_t kBlocksOfRows = 32;

// What one text gives: sums over the rows past the trained length, in bits, and every row.
struct PastLoss {
  double sum = 0;
  std::vector<double> rows;
};
using Losses = std::vector<PastLoss>;  // one a text

// Spearman's rank correlation: Pearson's of the ranks, equal values sharing theirs.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<double> ranks;
  for (const double value : values) {
    double below = 0, equal = 0;
    for (const double other : values) below += other < value, equal += other == value;
    ranks.push_back(below + (equal - 1) / 2);
  }
  return ranks;
}
double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = static_cast<double>(x.size() - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t n = 0; n < x.size(); ++n) {
    xy += (x[n] - mean) * (y[n] - mean);
    xx += (x[n] - mean) * (x[n] - mean), yy += (y[n] - mean) * (y[n] - mean);
  }
  return xy / std::sqrt(xx * yy);
}

std::string name_of(const Head& head) { return protocol::name_of_head(head.first, head.second); }

// The mean weight by distance of rows `first` and later of one layer, (H, N) float64.
at::Tensor weight_profile(const model::LayerAttention& attention, std::int64_t first,
                          const protocol::Progress& progress) {
  const at::NoGradGuard no_gradients;
  const std::int64_t heads = attention.heads(), tokens = attention.length();
  at::Tensor sums = at::zeros({heads, tokens}, at::kDouble);
  const std::int64_t step = rows_of_block(heads, tokens);
  for (std::int64_t begin = first; begin < tokens; begin += step) {
    progress.throw_if_cancelled();
    const std::int64_t end = std::min(begin + step, tokens);
    const at::Tensor weights = attention.weights({{0, heads}, {begin, end}, {0, end}})[0];
    add_by_distance(weights, begin, sums);
  }
  return sums / static_cast<double>(tokens - first);
}

// The weight on distances that training never showed, of a layer's heads.
class UnseenMeter {
 public:
  UnseenMeter(const model::Model& model, std::int64_t layer, std::int64_t tokens)
      : encoding_(model.decoder.encoding_of(layer)),
        trained_(model.config().context),
        tokens_(tokens) {
    const model::StartContext context = start_context_of(model.decoder, layer, tokens, at::kDouble);
    const at::Tensor frequencies = encoding_.frequencies(context);
    if (frequencies.defined()) frequencies_ = to_vector<double>(frequencies);
  }

  // "" where the encoding shows nothing that could be unseen.
  std::string kind(const model::AttentionProgram& program) const {
    const std::string& key = encoding_.info().key;
    if (key == "tape") return "distances of the rigid rotation";
    if (key == "tapa" || key == "xpos") return "distances";
    if (!frequencies_.empty()) return "phases";
    const auto* table = program.as<model::TableProgram>();
    return table != nullptr && table->first_distance == 0 ? "values" : "";
  }

  // (H, planes) as lists, of a profile (H, N).
  std::vector<std::vector<double>> read(const at::Tensor& profile,
                                        const model::AttentionProgram& program) const {
    std::vector<std::vector<double>> out(static_cast<std::size_t>(profile.size(0)));
    const std::string what = kind(program);
    for (std::int64_t h = 0; h < profile.size(0); ++h) {
      const auto weights = to_vector<double>(profile[h]);
      std::vector<double>& planes = out[static_cast<std::size_t>(h)];
      if (what == "phases") {
        for (const double frequency : frequencies_) {
          planes.push_back(weight_on(weights, unseen_phases(frequency, trained_, tokens_)));
        }
      } else if (what == "values") {
        planes.push_back(
            weight_on(weights, unseen_values(program.as<model::TableProgram>()->values[h])));
      } else {
        planes.push_back(weight_on(weights, beyond()));
      }
    }
    return out;
  }

 private:
  static double weight_on(const std::vector<double>& weights, const std::vector<bool>& unseen) {
    double sum = 0;
    for (std::size_t n = 0; n < weights.size(); ++n) sum += unseen[n] ? weights[n] : 0;
    return sum;
  }

  std::vector<bool> beyond() const {
    std::vector<bool> unseen(static_cast<std::size_t>(tokens_));
    for (std::int64_t n = trained_; n < tokens_; ++n) unseen[static_cast<std::size_t>(n)] = true;
    return unseen;
  }

  std::vector<bool> unseen_values(const at::Tensor& table) const {
    const auto values = to_vector<double>(table);
    const auto end = values.begin() + std::min<std::int64_t>(trained_, tokens_);
    const auto [low, high] = std::minmax_element(values.begin(), end);
    std::vector<bool> unseen;
    for (std::int64_t n = 0; n < tokens_; ++n) {
      const double value = values[static_cast<std::size_t>(n)];
      unseen.push_back(value < *low || value > *high);
    }
    return unseen;
  }

  const model::Encoding& encoding_;
  std::int64_t trained_, tokens_;
  std::vector<double> frequencies_;
};

// Adds what one text's rows past the trained length weigh, `share` of it, layer by layer.
class UnseenReader final : public model::Observer {
 public:
  UnseenReader(const model::Model& model, std::int64_t tokens, double share,
               const protocol::Progress& progress, std::vector<protocol::XrayUnseen>& unseen)
      : model_(model),
        tokens_(tokens),
        trained_(model.config().context),
        share_(share),
        progress_(progress),
        unseen_(unseen) {}

  bool wants_attention(std::int64_t) override { return true; }
  void on_attention(const AttentionPointer& attention) override {
    const UnseenMeter meter(model_, attention->layer(), tokens_);
    const std::string what = meter.kind(attention->program());
    if (what.empty()) return;
    const at::Tensor profile = weight_profile(*attention, trained_, progress_);
    const auto heads = meter.read(profile, attention->program());
    for (std::size_t head = 0; head < heads.size(); ++head, ++at_) {
      const std::vector<double>& planes = heads[head];
      if (at_ == unseen_.size()) {
        unseen_.push_back({attention->layer(), static_cast<std::int64_t>(head), what,
                           std::vector<double>(planes.size())});
      }
      std::vector<double>& sums = unseen_[at_].planes;
      for (std::size_t p = 0; p < sums.size(); ++p) sums[p] += share_ * planes[p];
    }
  }

 private:
  const model::Model& model_;
  std::int64_t tokens_, trained_;
  double share_;
  const protocol::Progress& progress_;
  std::vector<protocol::XrayUnseen>& unseen_;
  std::size_t at_ = 0;  // the next head's place among all layers'
};

class Xray {
 public:
  Xray(const std::shared_ptr<const model::Model>& model, const Texts& texts,
       const XrayOptions& options, protocol::Progress& progress)
      : model_(model),
        options_(options),
        progress_(progress),
        draws_(options.seed),
        trained_(model->config().context),
        limit_(options.limit > 0 ? options.limit : trained_ - (options.clamp ? 1 : 0)) {
    for (const Text& text : texts.items) {
      if (static_cast<std::int64_t>(text.ids.size()) > trained_ + 1) texts_.push_back(text.ids);
    }
    if (texts_.empty()) {
      throw formats::bad_usage(
          "nothing past the trained length of " + std::to_string(trained_) + " tokens to look at",
          "length", "give longer texts");
    }
    const auto longest = std::ranges::max(texts_, {}, [](const auto& ids) { return ids.size(); });
    plain_ = options.clamp && !model::clamps_stay_fused(
                                  model->decoder, static_cast<std::int64_t>(longest.size()) - 1);
    const ChosenHeads present(model->config(), {}, {});
    for (const std::int64_t layer : present.layers()) {
      for (const std::int64_t head : present.heads_of(layer)) all_.insert({layer, head});
    }
  }

  protocol::XrayResult run() {
    const std::vector<Heads> units = units_asked();
    plan(units.size());
    const Losses plain = plain_losses(), all = losses(all_);
    start(plain, all);
    std::vector<double> alone, left_out;
    for (const Heads& unit : units) {
      protocol::XrayRow row;
      row.layer = unit.begin()->first;
      row.head = options_.by_layer ? -1 : unit.begin()->second;
      const Losses treated = losses(unit), others = losses(all_but(unit));
      row.one_alone = difference_of(plain, treated);
      row.leave_one_out = difference_of(others, all);
      if (fails_) {
        row.share = share_of(plain, treated, all);
      } else {
        row.why = result_.verdict;
      }
      alone.push_back(row.one_alone.mean), left_out.push_back(row.leave_one_out.mean);
      result_.rows.push_back(std::move(row));
    }
    tell_agreement(alone, left_out);
    Losses repaired;
    if (options_.repair && fails_) repaired = repair(plain, all);
    fill_positions(plain, all, repaired);
    result_.passes = passes_;
    result_.provenance.ran = protocol::listed(kernels_);
    result_.provenance.note = note_of_missing_heads(*model_);
    return std::move(result_);
  }

 private:
  std::vector<Heads> units_asked() const {
    const ChosenHeads chosen(model_->config(), options_.layers, options_.heads);
    std::vector<Heads> units;
    for (const std::int64_t layer : chosen.layers()) {
      if (options_.by_layer) units.emplace_back();
      for (const std::int64_t head : chosen.heads_of(layer)) {
        if (!options_.by_layer) units.emplace_back();
        units.back().insert({layer, head});
      }
    }
    return units;
  }

  // What it will take, said before it is begun: a repair tries each head for each that it finds, on
  // half of the texts, then each of those found without the others.
  void plan(std::size_t units) {
    const std::size_t texts = texts_.size(), sure = texts * (2 + 2 * units);
    expected_ = static_cast<double>(sure);
    doing_ = "treating heads, " + std::to_string(sure) + " passes";
    if (!options_.repair) return;
    const std::size_t most = std::min(kMostRepaired, all_.size()), half = (texts + 1) / 2;
    std::size_t bound = half * most + texts;
    for (std::size_t found = 0; found < most; ++found) bound += half * (all_.size() - found);
    doing_ += " and at most " + std::to_string(bound) + " of a repair";
    expected_ += static_cast<double>(half * all_.size() + texts);  // where one head is enough
  }

  void tell_agreement(const std::vector<double>& alone, const std::vector<double>& left_out) {
    const double agreement = alone.size() > 2 ? spearman(alone, left_out) : std::nan("");
    if (std::isfinite(agreement)) {
      result_.order_agreement = agreement;
    } else {
      result_.why = alone.size() > 2 ? "no order to compare: the heads differ in nothing"
                                     : "no order to compare: fewer than three were treated";
    }
  }

  Heads all_but(const Heads& some) const {
    Heads rest;
    std::ranges::set_difference(all_, some, std::inserter(rest, rest.end()));
    return rest;
  }

  Treatment treatment_of(const Heads& heads) const {
    return [this, &heads](const model::LayerInput& input, model::AttentionProgram& program) {
      std::vector<std::int64_t> here;
      for (const auto& [layer, head] : heads) {
        if (layer == input.layer) here.push_back(head);
      }
      if (here.empty()) return;
      if (options_.clamp) {
        std::vector<std::int64_t> limits(static_cast<std::size_t>(program.q.size(1)), -1);
        for (const std::int64_t head : here) limits[static_cast<std::size_t>(head)] = limit_;
        return model::clamp_distances(input, limits, program);
      }
      const std::int64_t length = program.positions.length;
      if (limit_ >= length) return;
      at::Tensor bias =
          at::zeros({program.q.size(1), length}, program.q.options().dtype(at::kDouble));
      for (const std::int64_t head : here) {
        bias[head].slice(0, limit_).fill_(-std::numeric_limits<double>::infinity());
      }
      model::add_by_distance(program, bias);
    };
  }

  // Where a clamp runs plain, what it is compared with runs plain too, so that what it leaves alone
  // keeps its bits.
  TreatedPass pass() { return {plain_ ? model::Backend::plain : options_.backend, &kernels_}; }

  PastLoss loss_of(const std::vector<std::int64_t>& ids, const Heads& heads) {
    return loss_of(ids, heads, pass());
  }
  PastLoss loss_of(const std::vector<std::int64_t>& ids, const Heads& heads, TreatedPass as) {
    progress_.throw_if_cancelled();
    protocol::PartOfProgress part = part_of_pass(progress_, passes_++, expected_);
    as.progress = &part, as.doing = doing_;
    part.progress(0, doing_);
    PastLoss loss;
    const Treatment treatment = heads.empty() ? Treatment() : treatment_of(heads);
    loss.rows = treated_losses(*model_, ids, treatment, as);
    loss.sum = std::accumulate(loss.rows.begin() + trained_, loss.rows.end(), 0.0);
    return loss;
  }

  Losses losses(const Heads& heads) {
    Losses out;
    for (const auto& ids : texts_) out.push_back(loss_of(ids, heads));
    return out;
  }

  double rows_of(std::size_t text) const {
    return static_cast<double>(static_cast<std::int64_t>(texts_[text].size()) - 1 - trained_);
  }

  // ---- Intervals: over texts, or over the 8 blocks of rows of one ----

  bool one_text() const { return texts_.size() == 1; }

  // The losses of the only text's rows past the trained length: `minus` taken off, where it is
  // given.
  std::vector<double> rows_past(const Losses& losses, const Losses* minus) const {
    std::vector<double> rows(losses[0].rows.begin() + trained_, losses[0].rows.end());
    if (minus == nullptr) return rows;
    for (std::size_t n = 0; n < rows.size(); ++n) {
      rows[n] -= (*minus)[0].rows[n + static_cast<std::size_t>(trained_)];
    }
    return rows;
  }

  Interval mean_of(const Losses& losses) const {
    return bounded(kFromZero, difference_of(losses, nullptr));
  }
  Interval difference_of(const Losses& a, const Losses& b) const { return difference_of(a, &b); }
  Interval difference_of(const Losses& a, const Losses* b) const {
    std::vector<Part> parts;
    for (std::size_t n = 0; n < a.size(); ++n) {
      parts.push_back({a[n].sum - (b == nullptr ? 0 : (*b)[n].sum), rows_of(n)});
    }
    if (!one_text()) return ratio_interval(parts, draws_);
    const std::vector<double> rows = rows_past(a, b);
    return blocks_interval(parts[0].sum / parts[0].weight, blocks_of(rows), std::ssize(rows));
  }

  // What `treated` takes off the plain loss, of what treating all takes off it.
  Interval share_of(const Losses& plain, const Losses& treated, const Losses& all) const {
    std::vector<Part> parts;
    for (std::size_t n = 0; n < plain.size(); ++n) {
      parts.push_back({plain[n].sum - treated[n].sum, plain[n].sum - all[n].sum});
    }
    if (!one_text()) return ratio_of_differences(parts, draws_);
    const std::vector<Part> some = blocks_of(rows_past(plain, &treated));
    std::vector<Part> blocks = blocks_of(rows_past(plain, &all));
    for (std::size_t n = 0; n < blocks.size(); ++n) blocks[n] = {some[n].sum, blocks[n].sum};
    Interval share = ratio_of_differences(blocks, draws_);
    share.mean = parts[0].sum / parts[0].weight;
    share.method = share.known() ? method::kBlocks : method::kNone;
    return counted_in("blocks", share);
  }

  void start(const Losses& plain, const Losses& all) {
    result_.model = model_->report.name;
    result_.treatment = options_.clamp ? "clamp" : "window";
    result_.trained = trained_, result_.limit = limit_;
    result_.formula =
        "loss over rows from the trained length on; one_alone = plain - that head treated; "
        "leave_one_out = all but it treated - all treated; share = one_alone / (plain - all)";
    result_.plain = mean_of(plain), result_.all = mean_of(all);
    result_.returned = difference_of(plain, all);
    const Interval& returned = result_.returned;
    fails_ = returned.low.value_or(-1) > rounding();
    if (fails_) {
      result_.verdict =
          "treating all heads returns " + std::to_string(returned.mean) + " bits a token";
    } else {
      result_.verdict = returned.known() ? "no failure this treatment returns"
                                         : "too few rows to tell a failure from chance";
    }
  }

  // What another order of sums changes of a loss of so many bits, and is nothing that returns: a
  // loss is a sum of some hundred roundings.
  double rounding() const {
    const double unit = model_->decoder.dtype() == at::kDouble ? 0x1p-52 : 0x1p-23;
    return 256 * unit * std::max(1.0, result_.plain.mean);
  }

  // Untreated, with the mean weight over the rows past the trained length of all texts on what
  // training never showed.
  Losses plain_losses() {
    double rows = 0;
    for (std::size_t n = 0; n < texts_.size(); ++n) rows += rows_of(n);
    Losses out;
    for (std::size_t n = 0; n < texts_.size(); ++n) {
      UnseenReader reader(*model_, std::ssize(texts_[n]) - 1, rows_of(n) / rows, progress_,
                          result_.unseen);
      TreatedPass watched = pass();
      watched.observer = &reader;
      out.push_back(loss_of(texts_[n], {}, watched));
    }
    return out;
  }

  // ---- The smallest repair found ----

  // The sum over the texts of even rank, which it is chosen on; those of odd rank test it.
  double sum_of_chosen(const Losses& losses) const {
    double sum = 0;
    for (std::size_t n = 0; n < texts_.size(); n += 2) sum += losses[n].sum;
    return sum;
  }
  double sum_of_chosen(const Heads& heads) {
    double sum = 0;
    for (std::size_t n = 0; n < texts_.size(); n += 2) sum += loss_of(texts_[n], heads).sum;
    return sum;
  }

  Losses repair(const Losses& untreated, const Losses& all) {
    const double plain = sum_of_chosen(untreated), whole = plain - sum_of_chosen(all);
    const auto share = [&](double loss) { return (plain - loss) / whole; };
    Heads found;
    double reached = 0;
    while (reached < options_.enough && found.size() < std::min(kMostRepaired, all_.size())) {
      doing_ = "looking for a repair, head " + std::to_string(found.size() + 1);
      Head best;
      double lowest = std::numeric_limits<double>::infinity();
      for (const Head& head : all_) {
        if (found.contains(head)) continue;
        Heads with = found;
        with.insert(head);
        const double loss = sum_of_chosen(with);
        if (loss < lowest) lowest = loss, best = head;
      }
      found.insert(best);
      reached = share(lowest);
    }
    for (const Head& head : Heads(found)) {
      if (found.size() < 2 || reached < options_.enough) break;
      Heads without = found;
      without.erase(head);
      const double kept = share(sum_of_chosen(without));
      if (kept >= options_.enough) found = without, reached = kept;
    }
    return tell(found, reached, untreated);
  }

  Losses tell(const Heads& found, double share, const Losses& untreated) {
    Losses repaired;
    std::vector<Part> change;
    for (std::size_t n = 0; n < texts_.size(); ++n) {
      repaired.push_back(loss_of(texts_[n], found));
      if (n % 2 == 0) continue;
      change.push_back({repaired.back().sum - untreated[n].sum, rows_of(n)});
    }
    protocol::XrayRepair repair;
    std::string list;
    for (const Head& head : found) {
      repair.heads.push_back(name_of(head));
      list += (list.empty() ? "" : " ") + name_of(head) + ":" + std::to_string(limit_);
    }
    repair.share_choose = share;
    if (change.empty()) {
      repair.why = "one text has none left to test on: give two or more";
    } else {
      repair.change_test = ratio_interval(change, draws_);
    }
    repair.reading = model_->report.name + " (" +
                     (options_.clamp ? "head_clamps" : "head_windows") + "=" + list + ")";
    result_.repair = std::move(repair);
    return repaired;
  }

  // ---- Loss by position ----

  void fill_positions(const Losses& plain, const Losses& all, const Losses& repaired) {
    std::size_t longest = 0;
    for (const PastLoss& loss : plain) longest = std::max(longest, loss.rows.size());
    const std::size_t step = (longest + kBlocksOfRows - 1) / kBlocksOfRows;
    for (std::size_t begin = 0; begin < longest; begin += step) {
      protocol::XrayPosition block;
      block.begin = static_cast<std::int64_t>(begin);
      block.plain = mean_in(plain, begin, step), block.all = mean_in(all, begin, step);
      if (!repaired.empty()) block.repaired = mean_in(repaired, begin, step);
      result_.positions.push_back(block);
    }
  }
  static double mean_in(const Losses& losses, std::size_t begin, std::size_t step) {
    double sum = 0, rows = 0;
    for (const PastLoss& loss : losses) {
      for (std::size_t n = begin; n < std::min(begin + step, loss.rows.size()); ++n) {
        sum += loss.rows[n], rows += 1;
      }
    }
    return sum / rows;
  }

  std::shared_ptr<const model::Model> model_;
  const XrayOptions& options_;
  protocol::Progress& progress_;
  Draws draws_;
  std::int64_t trained_, limit_;
  bool plain_ = false;  // every pass is
  std::vector<std::vector<std::int64_t>> texts_;
  Heads all_;
  bool fails_ = false;
  model::AllRan kernels_;
  std::int64_t passes_ = 0;
  double expected_ = 1;
  std::string doing_;
  protocol::XrayResult result_;
};

}  // namespace

std::vector<bool> unseen_phases(double frequency, std::int64_t trained, std::int64_t length) {
  constexpr double circle = 2 * std::numbers::pi;
  const double arc = static_cast<double>(trained - 1) * frequency;
  std::vector<bool> unseen(static_cast<std::size_t>(length));
  if (arc >= circle - frequency) return unseen;
  for (std::int64_t n = 0; n < length; ++n) {
    const double phase = std::fmod(static_cast<double>(n) * frequency, circle);
    unseen[static_cast<std::size_t>(n)] =
        phase > arc + frequency / 2 && phase < circle - frequency / 2;
  }
  return unseen;
}

protocol::XrayResult analyse_xray(const std::shared_ptr<const model::Model>& model,
                                  const Texts& texts, const XrayOptions& options,
                                  protocol::Progress& progress) {
  require_causal(*model, "xray");
  require_losses(*model, texts);
  if (options.clamp) require_other_distances(*model);
  return Xray(model, texts, options, progress).run();
}

}  // namespace phasescope::analysis
