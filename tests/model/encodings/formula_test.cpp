// Built-in encodings written as formulas are themselves: scores, logits and gradients, run as the
// kernel's kind that is known in them and as a term.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "../attention_keeper.h"
#include "../encoding_variants.h"
#include "../golden.h"
#include "../next_token_loss.h"
#include "formats/error.h"

namespace phasescope::model {
namespace {

struct Twin {
  std::string name, encoding;
  Json options;
  std::string expression;
  std::string kind;                                 // AttentionProgram::name()
  std::map<std::string, std::string> tensors = {};  // of the formula: of the encoding
};
void PrintTo(const Twin& twin, std::ostream* out) { *out << twin.name; }

const std::string kPlanes =
    "let w = 10000^(-2*planes/d); let p = inphase(q, k); let x = quadrature(q, k);";
const std::string kKerple =
    "param p[head] ~ uniform(0, 2) in [0.01, 1e9]; param a[head] ~ uniform(0, 1) in [0.01, 1e9];"
    "let b = -p*log1p(a*lam);";
const std::string kMlp =
    "param w1[32, 2*head] ~ normal(0.1); param b1[32] ~ zeros; param w2[head, 32] ~ normal(0.1);"
    "param b2[head] ~ zeros;";

std::vector<Twin> twins() {
  const Json none = Json::object();
  const std::map<std::string, std::string> layers = {
      {"w1", "mlp.0.weight"}, {"b1", "mlp.0.bias"}, {"w2", "mlp.2.weight"}, {"b2", "mlp.2.bias"}};
  std::map<std::string, std::string> both = layers;
  both.insert({{"p", "p"}, {"a", "a"}});
  return {
      {"none", "none", none, "score = scale*dot(q, k)", "plain"},
      {"alibi", "alibi", none, "param m[head] ~ slopes; score = content - m*lam", "table"},
      {"kerple_log",
       "kerple_log",
       none,
       kKerple + "score = content + b",
       "table",
       {{"p", "p"}, {"a", "a"}}},
      {"t5",
       "t5",
       none,
       "shared param table[32, head] ~ normal(0.02);"
       "score = content + lookup(table, t5_bucket(lam, 32, 128))",
       "table",
       {{"table", "table"}}},
      {"t5_layers",
       "t5",
       {{"tables", "layer"}},
       "param b[32, head] ~ zeros; score = lookup(b, t5_bucket(lam, 32, 128)) + content",
       "table",
       {{"b", "table"}}},
      {"rope", "rope", none, kPlanes + "score = scale*sum(p*cos(lam*w) + x*sin(lam*w))", "plain"},
      {"xpos", "xpos", none,
       kPlanes + "let zeta = (2*planes + 0.4*d)/(1.4*d);"
                 "score = scale*sum((p*cos(lam*w) + x*sin(lam*w))*zeta^(lam/512))",
       "plain"},
      {"tapa", "tapa", none,
       "let t = d/2; score = dot(q[:t], k[:t])/sqrt(t)"
       "* cos(2*pi*lam^0.1*dot(q[t:], k[t:])/sqrt(d - t))",
       "tapa"},
      {"tapa_norm",
       "tapa",
       {{"phase_norm", 0.3}},
       "let t = d/2; let u = 0.3*q[t:]/rms(q[t:]); let v = 0.3*k[t:]/rms(k[t:]);"
       "score = dot(q[:t], k[:t])/sqrt(t)*cos(2*pi*lam^0.1*dot(u, v)/sqrt(d - t))",
       "tapa"},
      {"cape", "cape", none,
       kKerple + kMlp +
           "score = content + b + own(linear(w2, leaky(linear(w1, join(heads(content), heads(b)))"
           " + b1))) + b2",
       "cape", both},
      {"fire",
       "fire",
       {{"hidden", 5}, {"threshold", 7.5}},
       "param w1[5, 1] ~ normal(1); param b1[5] ~ zeros; param w2[head, 5] ~ normal(1);"
       "param b2[head] ~ zeros; param c ~ constant(0.1); param L ~ ones;"
       "let u = log(abs(c*lam) + 1)/(log(abs(c*max(i, abs(7.5*L))) + 1) + 1e-6);"
       "score = content + own(linear(w2, relu(linear(w1, u) + b1))) + b2",
       "term",
       {{"w1", "fire.0.weight"},
        {"b1", "fire.0.bias"},
        {"w2", "fire.2.weight"},
        {"b2", "fire.2.bias"},
        {"c", "c"},
        {"L", "L_multiplier"}}},
  };
}

// Random everywhere but where a parameter's range ends.
Weights weights_of(const Twin& twin) {
  const auto model = tiny_model({twin.name, twin.encoding, twin.options}, at::kDouble);
  Weights weights = model->decoder.weights();
  for (LayerWeights& layer : weights.layers) {
    for (auto& [name, tensor] : layer.encoding) {
      if (name == "p" || name == "a") tensor = tensor + 0.1;
    }
  }
  return weights;
}

// The encoding's weights as those of its formula.
Weights as_formula(const Twin& twin, const Encoding& formula, Weights weights) {
  const auto renamed = [&](Parameters& tensors, const std::vector<ParameterSpec>& specs) {
    Parameters ours;
    for (const ParameterSpec& spec : specs) {
      const auto found = twin.tensors.find(spec.name);
      ours[spec.name] = found == twin.tensors.end() ? spec.start.expand(spec.shape).clone()
                                                    : tensors.at(found->second);
    }
    tensors = std::move(ours);
  };
  renamed(weights.encoding, formula.shared_parameters());
  for (LayerWeights& layer : weights.layers) renamed(layer.encoding, formula.parameters());
  return weights;
}

struct Measured {
  at::Tensor score, logits;
  std::map<std::string, at::Tensor> gradients;
  std::string kind;
};

Measured measured(const ModelConfig& config, const Weights& given) {
  const std::shared_ptr<const Encoding> encoding = make_encoding(config);
  Weights weights = given;
  const NamedTensors tensors = named_tensors(config, *encoding, weights);
  for (auto [name, tensor] : tensors) {
    tensor.set_requires_grad(true);
    tensor.mutable_grad() = at::Tensor();
  }
  const Decoder decoder(config, encoding, weights);
  const at::Tensor ids = random_ids(2, 21, config.vocab_size);
  Measured out;
  out.logits = decoder.forward(ids, {.backend = Backend::plain});
  next_token_loss(out.logits, ids).backward();
  for (const auto& [name, tensor] : tensors) out.gradients[name] = tensor.grad();
  const at::NoGradGuard no_grad;
  AttentionKeeper keeper;
  decoder.hidden(ids, {}, &keeper);
  const ScoreParts parts = keeper.layers[0]->scores(keeper.layers[0]->whole());
  out.score = at::where(parts.score.isfinite(), parts.score, 0.0);
  out.kind = keeper.layers[0]->program().name();
  return out;
}

// "model.layers.0.encoding.p" of the formula's tensor is which of the encoding's.
std::string theirs(const Twin& twin, const std::string& name) {
  const std::size_t end = name.rfind('.') + 1;
  if (name.find(".encoding.") == std::string::npos) return name;
  const auto found = twin.tensors.find(name.substr(end));
  return found == twin.tensors.end() ? "" : name.substr(0, end) + found->second;
}

void expect_same(const Twin& twin, const Measured& formula, const Measured& encoding) {
  // Float64, sums of up to a hundred terms in another order.
  EXPECT_LT(relative_error(formula.score, encoding.score), 1e-12);
  EXPECT_LT(relative_error(formula.logits, encoding.logits), 1e-12);
  double largest = 0;
  for (const auto& [name, gradient] : encoding.gradients) {
    if (gradient.defined()) largest = std::max(largest, gradient.abs().max().item<double>());
  }
  for (const auto& [name, gradient] : formula.gradients) {
    const auto other = encoding.gradients.find(theirs(twin, name));
    if (other == encoding.gradients.end() || !other->second.defined()) continue;
    ASSERT_TRUE(gradient.defined()) << name;
    const double error = (gradient - other->second).abs().max().item<double>();
    EXPECT_LT(error, 1e-12 * largest) << name;
  }
}

class FormulaTwins : public testing::TestWithParam<Twin> {};
INSTANTIATE_TEST_SUITE_P(Encodings, FormulaTwins, testing::ValuesIn(twins()),
                         [](const auto& info) { return info.param.name; });

TEST_P(FormulaTwins, AreTheEncodings) {
  const Twin& twin = GetParam();
  const Weights weights = weights_of(twin);
  const Measured truth = measured(tiny_config(twin.encoding, twin.options), weights);
  for (const bool recognise : {true, false}) {
    SCOPED_TRACE(recognise ? "as what it is known for" : "as a term");
    const ModelConfig config =
        tiny_config("formula", {{"expression", twin.expression}, {"recognise", recognise}});
    const Measured ours = measured(config, as_formula(twin, *make_encoding(config), weights));
    EXPECT_EQ(ours.kind, recognise ? twin.kind : "term");
    expect_same(twin, ours, truth);
  }
}

// The same draws where the tensors have the same names and starts.
TEST(FormulaStart, IsThatOfTheEncodingOfTheSameNames) {
  const ModelConfig kerple = tiny_config("kerple_log");
  const ModelConfig config =
      tiny_config("formula", {{"expression", kKerple + "score = content + b"}});
  const Weights theirs = init_weights(kerple, *make_encoding(kerple), 3);
  const Weights ours = init_weights(config, *make_encoding(config), 3);
  for (std::size_t n = 0; n < ours.layers.size(); ++n) {
    for (const char* name : {"p", "a"}) {
      EXPECT_TRUE(ours.layers[n].encoding.at(name).equal(theirs.layers[n].encoding.at(name)));
    }
  }
  const ModelConfig starts = tiny_config(
      "formula",
      {{"expression",
        "param z ~ zeros; param c[2, head] ~ constant(3); param n[400, head] ~ normal(7);"
        "param m[head] ~ slopes; score = content + z + lookup(n, lam) + lookup(c, lam) - m*lam"}});
  const Weights drawn = init_weights(starts, *make_encoding(starts), 3);
  const Parameters& layer = drawn.layers[0].encoding;
  EXPECT_EQ(layer.at("z").item<double>(), 0);
  EXPECT_TRUE(layer.at("c").equal(at::full({2, 3}, 3.0f)));
  // 1200 draws: the deviation within 10 %, five of its own deviations.
  EXPECT_NEAR(layer.at("n").std().item<double>(), 7, 0.7);
  EXPECT_FLOAT_EQ(layer.at("m")[0].item<float>(), std::exp2(-4.0f));
}

TEST(FormulaLimits, HoldWhenReadAndAfterEachStep) {
  const ModelConfig config = tiny_config(
      "formula", {{"expression", "param m[head] ~ ones in [0, 0.5]; score = content - m*lam"}});
  const auto encoding = make_encoding(config);
  Parameters layer = {{"m", at::ones({3}, at::kDouble)}};
  EXPECT_EQ(encoding->bias_table(layer, 3, at::kDouble)[0][2].item<double>(), -1);
  encoding->constrain(layer);
  EXPECT_TRUE(layer.at("m").equal(at::full({3}, 0.5, at::kDouble)));
}

TEST(FormulaPowers, OfZeroHaveNoSlope) {
  const ModelConfig config = tiny_config(
      "formula",
      {{"expression", "param a ~ constant(0.5); param c ~ ones; score = content - (c*lam)^a"}});
  const auto encoding = make_encoding(config);
  Parameters layer = {{"a", at::full({}, 0.5, at::kDouble).requires_grad_()},
                      {"c", at::ones({}, at::kDouble).requires_grad_()}};
  const at::Tensor table = encoding->bias_table(layer, 2, at::kDouble);
  EXPECT_EQ(table[0][0].item<double>(), 0);
  table.sum().backward();
  EXPECT_EQ(layer.at("c").grad().item<double>(), -1.5);  // three heads at distance 1
  EXPECT_EQ(layer.at("a").grad().item<double>(), 0);     // ln 1
}

TEST(FormulaConfig, SaysWhatIsWrongWithItsColumn) {
  try {
    make_encoding(tiny_config("formula", {{"expression", "score = contnt"}}));
    FAIL();
  } catch (const formats::Error& error) {
    EXPECT_NE(error.full_text().find("column 9: \"contnt\" is not known here"), std::string::npos);
  }
}

}  // namespace
}  // namespace phasescope::model
