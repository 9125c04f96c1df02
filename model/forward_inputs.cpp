#include "model/forward_inputs.h"

#include <ATen/ATen.h>

#include <vector>

#include "formats/error.h"
#include "model/checkpoints/tensor_io.h"

namespace phasescope::model {
namespace {

// (B, N) int64, cut to `rows` and `columns`; one row may stand for all. Undefined where it is
// absent.
at::Tensor read_ids(const formats::SafetensorsFile& file, const std::string& name,
                    std::int64_t rows, std::int64_t columns) {
  const formats::TensorEntry* entry = file.find(name);
  if (entry == nullptr) return {};
  at::Tensor tensor = read_tensor(file, *entry);
  if (tensor.is_floating_point() || tensor.dim() < 1 || tensor.dim() > 2) {
    throw formats::bad_input(name + " must hold whole numbers, one a token", file.path().string());
  }
  tensor = tensor.to(at::kLong);
  if (tensor.dim() == 1) tensor = tensor.unsqueeze(0);
  if (tensor.size(1) < columns || (tensor.size(0) != 1 && tensor.size(0) < rows)) {
    throw formats::bad_input(name + " must hold one number a token", file.path().string());
  }
  return tensor.slice(0, 0, rows).slice(1, 0, columns).expand({rows, columns});
}

// Several positions a token, (axes, B, N) int64. Undefined where `name` has one or is absent.
at::Tensor read_axes(const formats::SafetensorsFile& file, const std::string& name,
                     const at::Tensor& ids) {
  const formats::TensorEntry* entry = file.find(name);
  if (entry == nullptr || entry->shape.size() != 3) return {};
  const at::Tensor axes = read_tensor(file, *entry);
  if (axes.is_floating_point() || axes.size(1) < ids.size(0) || axes.size(2) < ids.size(1)) {
    throw formats::bad_input(name + " must hold whole numbers, some for each token",
                             file.path().string());
  }
  return axes.to(at::kLong).slice(1, 0, ids.size(0)).slice(2, 0, ids.size(1));
}

// positions.0, positions.1, ... of (N) each, as (layers, N). Undefined where there are none.
at::Tensor read_layer_ids(const formats::SafetensorsFile& file, const std::string& prefix,
                          std::int64_t columns) {
  std::vector<at::Tensor> rows;
  for (;;) {
    const std::string name = prefix + "positions." + std::to_string(rows.size());
    const at::Tensor row = read_ids(file, name, 1, columns);
    if (!row.defined()) break;
    rows.push_back(row[0]);
  }
  return rows.empty() ? at::Tensor() : at::stack(rows);
}

// Row and column of each token, (N, 2) or (B, N, 2). Undefined where it is absent.
at::Tensor read_cells(const formats::SafetensorsFile& file, const std::string& name,
                      const at::Tensor& ids) {
  const formats::TensorEntry* entry = file.find(name);
  if (entry == nullptr) return {};
  const at::Tensor cells = read_tensor(file, *entry);
  const bool shaped = !cells.is_floating_point() && (cells.dim() == 2 || cells.dim() == 3) &&
                      cells.size(-1) == 2 && cells.size(-2) >= ids.size(1) &&
                      (cells.dim() == 2 || cells.size(0) >= ids.size(0));
  if (!shaped) {
    throw formats::bad_input(name + " must hold two whole numbers a token, its row and its column",
                             file.path().string());
  }
  const at::Tensor cut = cells.to(at::kLong).slice(-2, 0, ids.size(1));
  return cut.dim() == 3 ? cut.slice(0, 0, ids.size(0)) : cut;
}

// The mask of pairs that all texts have: (N, N) of (B, N, N) bool.
at::Tensor common_mask(const at::Tensor& masks, const std::string& name,
                       const formats::SafetensorsFile& file) {
  if (!masks.eq(masks.slice(0, 0, 1)).all().item<bool>()) {
    throw formats::bad_input(name + " must be the same for all texts of a batch",
                             file.path().string(), "give one text at a time");
  }
  return masks[0].contiguous();
}

// A mask with a row for each query. Undefined where `name` has none.
at::Tensor read_pair_mask(const formats::SafetensorsFile& file, const std::string& name,
                          std::int64_t rows, std::int64_t columns) {
  const formats::TensorEntry* entry = file.find(name);
  if (entry == nullptr || entry->shape.size() < 3) return {};
  at::Tensor mask = read_tensor(file, *entry);
  if (mask.dim() == 4 && mask.size(1) == 1) mask = mask.squeeze(1);
  if (mask.dim() != 3 || mask.size(1) < columns || mask.size(2) < columns ||
      (mask.size(0) != 1 && mask.size(0) < rows)) {
    throw formats::bad_input(name + " must be (B, N), (B, N, N) or (B, 1, N, N)",
                             file.path().string());
  }
  mask = mask.slice(0, 0, rows).slice(1, 0, columns).slice(2, 0, columns);
  // A float mask is added to the scores: 0 for what is seen. Others say 1 for it.
  const at::Tensor seen = mask.is_floating_point() ? mask.eq(0) : mask.ne(0);
  return common_mask(seen, name, file);
}

}  // namespace

void place_cells(const Encoding& encoding, ForwardOptions& options) {
  if (!options.grid_positions.defined()) return;
  const std::int64_t columns = encoding.options().value("columns", std::int64_t{0});
  if (columns == 0) {
    throw formats::bad_input(
        "places on a grid need an encoding with columns, this one is " + encoding.info().key,
        "grid_positions");
  }
  const at::Tensor row = options.grid_positions.select(-1, 0);
  const at::Tensor column = options.grid_positions.select(-1, 1);
  if ((row.lt(0) | column.lt(0) | column.ge(columns)).any().item<bool>()) {
    throw formats::bad_input("a row below 0, or a column outside 0.." + std::to_string(columns - 1),
                             "grid_positions", "the grid is as wide as encoding.columns says");
  }
  options.position_ids = row * columns + column;
  options.grid_positions = at::Tensor();
}

void read_forward_inputs(const formats::SafetensorsFile& file, const std::string& prefix,
                         const at::Tensor& ids, const ModelConfig& config,
                         ForwardOptions& options) {
  const auto read = [&](const char* name) {
    return read_ids(file, prefix + name, ids.size(0), ids.size(1));
  };
  options.axis_positions = read_axes(file, prefix + "position_ids", ids);
  options.position_ids = options.axis_positions.defined() ? at::Tensor() : read("position_ids");
  // Most have one row for all texts.
  if (options.position_ids.defined() &&
      options.position_ids.eq(options.position_ids.slice(0, 0, 1)).all().item<bool>()) {
    options.position_ids = options.position_ids[0];
  }
  options.grid_positions = read_cells(file, prefix + "grid_positions", ids);
  options.layer_position_ids = read_layer_ids(file, prefix, ids.size(1));
  options.mask = read_pair_mask(file, prefix + "attention_mask", ids.size(0), ids.size(1));
  if (!options.mask.defined()) {
    const at::Tensor mask = read("attention_mask");
    if (mask.defined() && mask.eq(0).any().item<bool>()) options.key_mask = mask;
  }
  options.document_ids = read("document_ids");
  if (options.mask.defined() && config.encoder_layers > 0) {
    throw formats::bad_input("a mask of pairs is read by models with one stack alone",
                             file.path().string());
  }
  options.token_types = read("token_type_ids");
  const std::string decoder = prefix + "decoder_input_ids";
  if (const formats::TensorEntry* entry = file.find(decoder)) {
    const std::int64_t length = entry->shape.empty() ? 0 : entry->shape.back();
    options.decoder_ids = read_ids(file, decoder, ids.size(0), length);
  }
}

}  // namespace phasescope::model
