#include "model/forward_checks.h"

#include <ATen/ATen.h>

#include <string>

#include "formats/error.h"

namespace phasescope::model {
namespace {

// (B, N) of whole numbers, one a token of `ids`.
void check_per_token(const at::Tensor& given, const at::Tensor& ids, const char* name) {
  if (!given.defined() || (given.dim() == 2 && given.sizes() == ids.sizes())) return;
  throw formats::bad_input("there must be one for each token, (" + std::to_string(ids.size(0)) +
                               ", " + std::to_string(ids.size(1)) + ")",
                           name);
}

void check_pieces(const at::Tensor& given, const PatchesConfig& patches, const at::Tensor& ids) {
  if (patches.side == 0 && !given.defined()) return;
  if (patches.side == 0) throw formats::bad_input("this model reads no images", "patches");
  if (!given.defined()) {
    throw formats::bad_input("this model reads images, and ids alone were given", "patches",
                             "leave the input out: a sample of its task is read then");
  }
  if (given.dim() == 3 && given.size(0) == ids.size(0) && given.size(1) == ids.size(1) &&
      given.size(2) == patches.numbers()) {
    return;
  }
  throw formats::bad_input("pieces of images must be (" + std::to_string(ids.size(0)) + ", " +
                               std::to_string(ids.size(1)) + ", " +
                               std::to_string(patches.numbers()) + ")",
                           "patches");
}

}  // namespace

void check_position_ids(const at::Tensor& positions, const at::Tensor& ids, const char* name) {
  if (positions.defined() && positions.dim() == 2) check_per_token(positions, ids, name);
  if (positions.defined() && positions.dim() != 2 &&
      (positions.dim() != 1 || positions.size(0) != ids.size(1))) {
    throw formats::bad_input(
        "position ids must be one for each of the " + std::to_string(ids.size(1)) + " tokens",
        name);
  }
}

void check_options(const ForwardOptions& options, const ModelConfig& config,
                   const at::Tensor& ids) {
  const std::int64_t length = ids.size(1);
  check_position_ids(options.position_ids, ids, "position_ids");
  const at::Tensor& by_layer = options.layer_position_ids;
  if (by_layer.defined() &&
      (by_layer.dim() != 2 || by_layer.size(0) != config.layers || by_layer.size(1) != length)) {
    throw formats::bad_input("there must be " + std::to_string(config.layers) + " rows of " +
                                 std::to_string(length) + " positions, one a layer",
                             "layer_position_ids");
  }
  check_per_token(options.key_mask, ids, "attention_mask");
  check_pieces(options.patches, config.patches, ids);
  check_per_token(options.document_ids, ids, "document_ids");
  if (options.document_ids.defined() && config.encoder_layers > 0) {
    throw formats::bad_input("documents are read by models with one stack alone", "document_ids");
  }
  const at::Tensor& types = options.token_types;
  check_per_token(types, ids, "token_type_ids");
  const std::int64_t kinds = config.embedding.token_types;
  if (types.defined() && kinds > 0 && (types.lt(0) | types.ge(kinds)).any().item<bool>()) {
    throw formats::bad_input("token types must lie in 0.." + std::to_string(kinds - 1),
                             "token_type_ids");
  }
  const at::Tensor& axes = options.axis_positions;
  if (axes.defined() &&
      (axes.dim() != 3 || axes.size(1) != ids.size(0) || axes.size(2) != length)) {
    throw formats::bad_input("positions of several axes must be (axes, " +
                                 std::to_string(ids.size(0)) + ", " + std::to_string(length) + ")",
                             "position_ids");
  }
  const at::Tensor& cells = options.grid_positions;
  if (cells.defined() &&
      (cells.dim() < 2 || cells.dim() > 3 || cells.size(-1) != 2 || cells.size(-2) != length ||
       (cells.dim() == 3 && cells.size(0) != ids.size(0)))) {
    throw formats::bad_input(
        "there must be a row and a column for each of the " + std::to_string(length) + " tokens",
        "grid_positions");
  }
  const at::Tensor& mask = options.mask;
  if (mask.defined() && (mask.dim() != 2 || mask.size(0) != length || mask.size(1) != length)) {
    throw formats::bad_input("the mask must have a row and a column for each token", "mask");
  }
}

}  // namespace phasescope::model
