#include "model/encodings/imported.h"

#include <ATen/ATen.h>

#include "formats/error.h"

namespace phasescope::model {
namespace {

const EncodingInfo& imported_info() {
  static const EncodingInfo info = {
      .key = "imported",
      .title = "Attention computed elsewhere",
      .formula =
          "qk: s_ij = q_i.k_j scale of the stored q and k; maps: s_ij = ln of the stored "
          "weight",
      .source = "what was imported (phasescope import)",
      .departure = "",
      .options = {{"tensors", "qk", "what is stored", {"qk", "maps"}},
                  {"tokens", 128, "of the text that the tensors were computed of", {}, 1, 1 << 24}},
      .under_shift = {UnderShift::Kind::stays, "what was imported reads no position ids"},
      .has_state = false,
      .of_one_text = true,
  };
  return info;
}

// Weights below it are as good as 0; scores stay finite.
constexpr double kLeastWeight = 1e-30;

class Imported final : public Encoding {
 public:
  Imported(const Json& options, const ModelConfig& model) : Encoding(options, model) {}

  const EncodingInfo& info() const override { return imported_info(); }

  std::string departure() const override {
    return maps() ? "attention maps computed elsewhere: scores are logarithms of weights, known up "
                    "to a constant of each row"
                  : "queries and keys computed elsewhere";
  }

  std::vector<ParameterSpec> parameters() const override {
    const std::int64_t n = integer("tokens");
    if (maps()) {
      return {{.name = "map",
               .shape = {heads_, n, n},
               .init = ParameterSpec::Init::uniform,
               .low = 0.1,
               .high = 1,
               .decays = false}};
    }
    return {{.name = "q", .shape = {heads_, n, head_dim_}, .decays = false},
            {.name = "k", .shape = {kv_heads_, n, head_dim_}, .decays = false}};
  }

  Pieces in_pieces(std::int64_t) const override {
    return {Pieces::Kind::refused, "it holds the attention of one text, whatever is read"};
  }

  // The imported scores of the first tokens, whatever text is read.
  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    const std::int64_t tokens = q.size(2);
    if (tokens > integer("tokens")) {
      throw formats::bad_input("what was imported has " + std::to_string(integer("tokens")) +
                                   " tokens, and a text of " + std::to_string(tokens) +
                                   " was given",
                               "length");
    }
    if (maps()) return of_maps(layer, unrotated(q, k, state));
    const auto stored = [&](const char* name, const at::Tensor& like) {
      return layer.at(name).slice(1, 0, tokens).unsqueeze(0).expand_as(like).to(like.scalar_type());
    };
    return unrotated(stored("q", q), stored("k", k), state);
  }

 private:
  bool maps() const { return text("tensors") == "maps"; }

  static AttentionProgram of_maps(const Parameters& layer, AttentionProgram program) {
    TermProgram term;
    term.arrays = program.q.size(1);
    term.no_table = "a map that was read from a file";
    term.score = [map = layer.at("map")](const TermRegion& region) {
      const at::Tensor& content = region.content;
      const at::Tensor part =
          map.slice(0, region.first_head, region.first_head + content.size(1))
              .slice(1, region.first_row, region.first_row + content.size(2))
              .slice(2, region.first_column, region.first_column + content.size(3));
      const at::Tensor weights = part.unsqueeze(0).to(content.scalar_type());
      return weights.clamp_min(kLeastWeight).log().expand_as(content);
    };
    program.variant = std::move(term);
    return program;
  }
};

std::unique_ptr<Encoding> make_imported(const Json& options, const ModelConfig& model) {
  return std::make_unique<Imported>(options, model);
}

}  // namespace

EncodingEntry imported_entry() { return {&imported_info(), &make_imported}; }

}  // namespace phasescope::model
