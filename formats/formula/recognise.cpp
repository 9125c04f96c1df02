// Which of the fused kernels' scores a formula is.
#include <algorithm>
#include <cmath>

#include "formats/formula/terms.h"

namespace phasescope::formula {

namespace {

using Form = Recognised::Form;

constexpr unsigned kOfQuery = kReadsQuery | kReadsQueryPlace;
constexpr unsigned kOfKey = kReadsKey | kReadsKeyPlace;

bool reads_none(unsigned reads, unsigned what) { return (reads & what) == 0; }
// Whether the distance alone is read, or nothing that a pair has.
bool by_distance(unsigned reads) { return reads_none(reads, kOfQuery | kOfKey | kReadsAllHeads); }
bool of_query_alone(unsigned reads) {
  return reads_none(reads, kOfKey | kReadsDistance | kReadsAllHeads);
}
bool of_key_alone(unsigned reads) {
  return reads_none(reads, kOfQuery | kReadsDistance | kReadsAllHeads);
}
bool of_nothing(unsigned reads) { return by_distance(reads) && of_query_alone(reads); }

class Recogniser {
 public:
  explicit Recogniser(Formula& formula) : f_(formula) {}

  Recognised result() {
    const auto terms = expanded(f_, f_.score);
    if (!terms) return unknown("it is a sum of too many products");
    for (const auto& [product, c] : *terms) {
      (by_distance(reads_of(f_, {{product, c}})) ? added_ : rest_)[product] = c;
    }
    if (rest_.empty()) return unknown("its score reads neither a query nor a key");
    for (const auto attempt : {&Recogniser::product_with_gain, &Recogniser::multiplied,
                               &Recogniser::rotated, &Recogniser::tapa, &Recogniser::cape}) {
      if (const auto found = (this->*attempt)()) return *found;
    }
    return unknown(reason());
  }

 private:
  static Recognised unknown(std::string why) {
    Recognised out;
    out.why = std::move(why);
    return out;
  }

  struct Sides {
    int query = -1, key = -1;  // both -1: the content
    std::int64_t width = 0;
    auto operator<=>(const Sides&) const = default;
  };

  // A product of something of the query with something of the key.
  std::optional<Sides> sides_of(const Factor& factor) const {
    if (factor.summed || factor.parts[0].second != 1) return {};
    const Node& node = f_.at(factor.parts[0].first);
    if (node.op == Op::content) return Sides{-1, -1, f_.sizes.head_dim};
    if (node.op != Op::dot) return {};
    return sides_of(node);
  }

  std::optional<Sides> sides_of(const Node& node) const {
    const int a = node.args[0], b = node.args[1];
    const auto fits = [&](int query, int key) {
      const Node &of_q = f_.at(query), &of_k = f_.at(key);
      return of_query_alone(of_q.reads) && of_key_alone(of_k.reads) && of_q.width == of_k.width &&
             (of_q.reads & kReadsQuery) && (of_k.reads & kReadsKey);
    };
    if (fits(a, b)) return Sides{a, b, f_.at(a).width};
    if (fits(b, a)) return Sides{b, a, f_.at(a).width};
    return {};
  }

  // The one factor of a product that is such, and what else there is.
  struct Split {
    Sides sides;
    Product others;
  };
  std::optional<Split> split(const Product& product) const {
    std::optional<Split> out;
    Product others;
    for (const Factor& factor : product) {
      const auto sides = sides_of(factor);
      if (sides && out) return {};
      if (sides) {
        out = Split{*sides, {}};
      } else {
        others.push_back(factor);
      }
    }
    if (out) out->others = std::move(others);
    return out;
  }

  // All of `rest_` as one such factor times `factors`, each of which passes the test.
  template <class Test>
  std::optional<std::pair<Sides, Terms>> one_product(Test passes) const {
    std::optional<Sides> sides;
    Terms factors;
    for (const auto& [product, c] : rest_) {
      const auto parts = split(product);
      if (!parts || (sides && *sides != parts->sides)) return {};
      if (parts->sides.width != f_.sizes.head_dim) return {};
      for (const Factor& factor : parts->others) {
        if (!passes(reads_of(f_, factor))) return {};
      }
      sides = parts->sides;
      factors[parts->others] += c;
    }
    return std::pair{*sides, factors};
  }

  std::optional<Recognised> product_with_gain() {
    auto found = one_product(of_query_alone);
    if (!found) return {};
    Recognised out;
    out.form = added_.empty() ? Form::plain : Form::table;
    out.query = found->first.query, out.key = found->first.key;
    out.gain = std::move(found->second), out.table = added_;
    return out;
  }

  std::optional<Recognised> multiplied() {
    if (!added_.empty()) return {};
    auto found = one_product(by_distance);
    if (!found) return {};
    Recognised out;
    out.form = Form::multiplied;
    out.query = found->first.query, out.key = found->first.key;
    out.gain = {{{}, 1.0}}, out.table = std::move(found->second);
    return out;
  }

  // ---- rotations ------------------------------------------------------------------------------

  // Whether a value is the distance times something that reads nothing of the pair.
  bool is_linear(int id) {
    const auto terms = expanded(f_, id);
    if (!terms || terms->empty()) return false;
    for (const auto& [product, c] : *terms) {
      int distances = 0;
      for (const Factor& factor : product) {
        const Node& node = f_.at(factor.parts[0].first);
        const bool lam = !factor.summed && factor.parts[0].second == 1 &&
                         (node.op == Op::distance || node.op == Op::difference);
        if (lam) ++distances;
        if (!lam && !of_nothing(reads_of(f_, factor))) return false;
      }
      if (distances != 1) return false;
    }
    return true;
  }

  bool decays(int id) {
    const Node node = f_.at(id);
    if (node.op == Op::exp) return is_linear(node.args[0]);
    return node.op == Op::power && of_nothing(f_.at(node.args[0]).reads) && is_linear(node.args[1]);
  }

  // One of the two sums over planes of a rotated product.
  struct PlaneSum {
    int pair = -1, angle = -1;  // nodes: inphase or quadrature; of the cosine or sine
    Op of = Op::inphase, wave = Op::cos;
    std::vector<std::pair<int, int>> decays = {};
    Product others = {};
    double c = 0;
  };

  std::optional<PlaneSum> plane_sum(const Product& product, double c) {
    PlaneSum out{.c = c};
    bool found = false;
    for (const Factor& factor : product) {
      if (!factor.summed) {
        if (!of_query_alone(reads_of(f_, factor))) return {};
        out.others.push_back(factor);
        continue;
      }
      if (found || !read_planes(factor, out)) return {};
      found = true;
    }
    if (!found) return {};
    return out;
  }

  bool read_planes(const Factor& factor, PlaneSum& out) {
    for (const auto& [id, power] : factor.parts) {
      const Op op = f_.at(id).op;
      if ((op == Op::inphase || op == Op::quadrature) && power == 1 && out.pair < 0) {
        out.pair = id, out.of = op;
      } else if ((op == Op::cos || op == Op::sin) && power == 1 && out.angle < 0) {
        out.angle = f_.at(id).args[0], out.wave = op;
      } else if (decays(id)) {
        out.decays.emplace_back(id, power);
      } else {
        return false;
      }
    }
    return out.pair >= 0 && out.angle >= 0 && (out.of == Op::inphase) == (out.wave == Op::cos);
  }

  std::optional<Recognised> rotated() {
    if (rest_.size() != 2) return {};
    std::optional<PlaneSum> in, across;
    for (const auto& [product, c] : rest_) {
      auto sum = plane_sum(product, c);
      if (!sum) return {};
      (sum->of == Op::inphase ? in : across) = std::move(sum);
    }
    if (!in || !across || in->angle != across->angle || in->others != across->others ||
        in->decays != across->decays || std::abs(in->c) != std::abs(across->c)) {
      return {};
    }
    const Node pair = f_.at(in->pair);
    if (pair.args != f_.at(across->pair).args || !is_linear(in->angle)) return {};
    const auto sides = sides_of(pair);
    if (!sides || sides->query != pair.args[0] || sides->width != f_.sizes.head_dim) return {};
    Recognised out;
    out.form = Form::rotated;
    out.query = sides->query, out.key = sides->key;
    out.gain = {{in->others, in->c}}, out.table = added_;
    out.angle = in->angle, out.turn = in->c == across->c ? 1 : -1, out.decays = in->decays;
    return out;
  }

  // ---- a phase that the pair turns ------------------------------------------------------------

  // Channels [from, to) of the query or the key.
  bool is_slice(int id, Op of, std::int64_t from, std::int64_t to) const {
    const Node& node = f_.at(id);
    return node.op == Op::slice && f_.at(node.args[0]).op == of && node.from == from &&
           node.to == to;
  }

  std::optional<Recognised> tapa() {
    if (rest_.size() != 1 || !added_.empty()) return {};
    const auto& [product, c] = *rest_.begin();
    const auto parts = split(product);
    if (!parts || parts->others.size() != 1 || parts->sides.query < 0) return {};
    const Factor& wave = parts->others[0];
    const Node& cosine = f_.at(wave.parts[0].first);
    if (wave.summed || wave.parts[0].second != 1 || cosine.op != Op::cos) return {};
    const std::int64_t width = parts->sides.width;
    if (!is_slice(parts->sides.query, Op::q, 0, width) ||
        !is_slice(parts->sides.key, Op::k, 0, width)) {
      return {};
    }
    Recognised out;
    out.form = Form::tapa;
    out.content_width = width;
    out.gain = {{{}, c}};
    if (!read_phase(cosine.args[0], out)) return {};
    return out;
  }

  bool read_phase(int id, Recognised& out) {
    const auto terms = expanded(f_, id);
    if (!terms || terms->size() != 1) return false;
    const auto& [product, c] = *terms->begin();
    const auto parts = split(product);
    if (!parts || parts->sides.query < 0) return false;
    if (parts->sides.width != f_.sizes.head_dim - out.content_width) return false;
    for (const Factor& factor : parts->others) {
      const unsigned reads = reads_of(f_, factor);
      // The kernel has one power for all heads, and no gradient of it.
      if (!by_distance(reads) || (reads & (kVariesByHead | kReadsParameters))) return false;
    }
    out.phase_query = parts->sides.query, out.phase_key = parts->sides.key;
    out.power = {{parts->others, c}};
    return true;
  }

  // ---- a correction by all heads --------------------------------------------------------------

  std::optional<Recognised> cape() {
    if (rest_.size() != 2) return {};
    int network = -1, contents = 0;
    for (const auto& [product, c] : rest_) {
      if (c != 1 || product.size() != 1 || product[0].summed || product[0].parts[0].second != 1) {
        return {};
      }
      const Node& node = f_.at(product[0].parts[0].first);
      if (node.op == Op::content) ++contents;
      if (node.op == Op::own) network = node.args[0];
    }
    if (contents != 1 || network < 0) return {};
    Recognised out;
    out.form = Form::cape;
    if (!read_layers(network, out)) return {};
    return out;
  }

  bool read_layers(int id, Recognised& out) {
    const Node second = f_.at(id);
    if (second.op != Op::linear || f_.at(second.args[0]).op != Op::leaky) return false;
    out.second = second.parameter;
    const auto hidden = expanded(f_, f_.at(second.args[0]).args[0]);
    if (!hidden || hidden->size() > 2) return false;
    int inputs = -1;
    for (const auto& [product, c] : *hidden) {
      if (c != 1 || product.size() != 1 || product[0].parts[0].second != 1) return false;
      const int part = product[0].parts[0].first;
      const Node& node = f_.at(part);
      if (node.op == Op::linear && inputs < 0) {
        out.first = node.parameter, inputs = node.args[0];
      } else if (of_nothing(node.reads) && !(node.reads & kVariesByHead) && !product[0].summed) {
        out.first_bias = part;
      } else {
        return false;
      }
    }
    return inputs >= 0 && read_inputs(inputs, out);
  }

  bool read_inputs(int id, Recognised& out) {
    const Node node = f_.at(id);
    const auto of_heads = [&](int part) {
      return f_.at(part).op == Op::heads ? f_.at(part).args[0] : -1;
    };
    if (node.op == Op::heads) {
      out.with_base = false, out.last_bias = added_;
      return f_.at(node.args[0]).op == Op::content && of_nothing(reads_of(f_, added_));
    }
    if (node.op != Op::join || node.args.size() != 2) return false;
    const int content = of_heads(node.args[0]), base = of_heads(node.args[1]);
    if (content < 0 || base < 0 || f_.at(content).op != Op::content) return false;
    const auto terms = expanded(f_, base);
    if (!terms || !by_distance(reads_of(f_, *terms))) return false;
    out.base = *terms, out.last_bias = added_;
    for (const auto& [product, c] : *terms) {
      const auto found = out.last_bias.find(product);
      if (found == out.last_bias.end() || found->second != c) return false;
      out.last_bias.erase(found);
    }
    return of_nothing(reads_of(f_, out.last_bias));
  }

  // ---- why not --------------------------------------------------------------------------------

  std::string reason() const {
    if (f_.at(f_.score).reads & kReadsPlaces) {
      return "it reads i or j themselves, and kernels know their difference";
    }
    for (const auto& [product, c] : rest_) {
      for (const Factor& factor : product) {
        const unsigned reads = reads_of(f_, factor);
        if (sides_of(factor) || by_distance(reads) || of_query_alone(reads)) continue;
        const Node& node = f_.at(factor.parts[0].first);
        return std::string(name_of(node.op)) + " at column " + std::to_string(node.column) +
               " is no product of a query and a key, nor a function of the distance that is added "
               "to one or multiplies it";
      }
    }
    return "it adds different products of queries and keys, or adds to one that the distance "
           "multiplies";
  }

  Formula& f_;
  Terms added_, rest_;  // functions of the distance; all else
};

}  // namespace

const char* name_of(Recognised::Form form) {
  switch (form) {
    case Form::plain:
      return "plain";
    case Form::table:
      return "table";
    case Form::multiplied:
      return "table, multiplied";
    case Form::rotated:
      return "plain, rotated";
    case Form::tapa:
      return "tapa";
    case Form::cape:
      return "cape";
    case Form::term:
      return "term";
  }
  return "";
}

Recognised recognised(Formula& formula) { return Recogniser(formula).result(); }

}  // namespace phasescope::formula
