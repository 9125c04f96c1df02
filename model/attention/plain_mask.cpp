#include "model/attention/plain_mask.h"

#include <ATen/ATen.h>

#include "model/attention/plain_attention.h"

namespace phasescope::model {
namespace {

// Whether pairs are masked by the causal mask or the window; row and column may be any shapes that
// broadcast.
at::Tensor hidden_by_index(const AttentionProgram& program, const at::Tensor& row,
                           const at::Tensor& column) {
  const at::Tensor query = program.query_offset == 0 ? row : row + program.query_offset;
  at::Tensor hidden =
      program.causal ? column > query : at::zeros({}, row.options().dtype(at::kBool));
  if (program.window > 0) hidden = hidden | ((query - column).abs() >= program.window);
  return hidden;
}

// (rows, M), what the mask alone hides of all keys, documents left out.
at::Tensor hidden_of_all_keys(const AttentionProgram& program, const at::Tensor& row) {
  if (program.mask.defined()) return program.mask.index_select(0, row).logical_not();
  const at::Tensor column = indices(program, {0, program.k.size(2)});
  return hidden_by_index(program, row.unsqueeze(1), column).expand({row.size(0), column.size(0)});
}

// (B, rows, columns), true for pairs of different documents.
at::Tensor of_other_documents(const AttentionProgram& program, Range rows, Range columns) {
  const at::Tensor& ids = program.documents;
  const Range queries = tokens_of_rows(program, rows);
  return ids.slice(1, queries.begin, queries.end).unsqueeze(2) !=
         ids.slice(1, columns.begin, columns.end).unsqueeze(1);
}

// (rows, columns), or undefined where nothing is masked but padding and documents.
at::Tensor hidden_of_all_texts(const AttentionProgram& program, Range rows, Range columns) {
  if (program.mask.defined()) {
    return program.mask.slice(0, rows.begin, rows.end)
        .slice(1, columns.begin, columns.end)
        .logical_not();
  }
  const bool all_before = columns.end <= tokens_of_rows(program, rows).begin + 1;
  if ((!program.causal || all_before) && program.window == 0) return {};
  return hidden_by_index(program, indices(program, rows).unsqueeze(1),
                         indices(program, columns).unsqueeze(0));
}

}  // namespace

at::Tensor indices(const AttentionProgram& program, Range range) {
  return at::arange(range.begin, range.end, program.q.options().dtype(at::kLong));
}

Range tokens_of_rows(const AttentionProgram& program, Range rows) {
  return {rows.begin + program.query_offset, rows.end + program.query_offset};
}

bool spreads_padding(const AttentionProgram& program) {
  return program.padding_added && program.key_mask.defined();
}

at::Tensor lost_rows(const AttentionProgram& program, Range rows) {
  at::Tensor hidden = hidden_of_all_keys(program, indices(program, rows));
  if (program.documents.defined()) {
    hidden = hidden | of_other_documents(program, rows, {0, program.k.size(2)});
  }
  const at::Tensor seen = hidden.logical_not();
  return (seen & program.key_mask.unsqueeze(1)).any(-1).logical_not().unsqueeze(1).unsqueeze(-1);
}

at::Tensor lost_of_pairs(const AttentionProgram& program, const at::Tensor& batch,
                         const at::Tensor& row) {
  at::Tensor seen = hidden_of_all_keys(program, row).logical_not();
  if (const at::Tensor& ids = program.documents; ids.defined()) {
    const at::Tensor own = ids.index({batch, row + program.query_offset});
    seen = seen & (own.unsqueeze(1) == ids.index_select(0, batch));
  }
  return (seen & program.key_mask.index_select(0, batch)).any(-1).logical_not();
}

at::Tensor hidden_of_pairs(const AttentionProgram& program, const at::Tensor& batch,
                           const at::Tensor& row, const at::Tensor& column) {
  at::Tensor hidden = program.mask.defined() ? program.mask.index({row, column}).logical_not()
                                             : hidden_by_index(program, row, column);
  if (const at::Tensor& ids = program.documents; ids.defined()) {
    const at::Tensor own = ids.index({batch, row + program.query_offset});
    hidden = hidden | (own != ids.index({batch, column}));
  }
  if (!program.key_mask.defined()) return hidden;
  const at::Tensor padded = program.key_mask.index({batch, column}).logical_not();
  if (!spreads_padding(program)) return hidden | padded;
  return at::where(lost_of_pairs(program, batch, row), hidden & padded, hidden | padded);
}

at::Tensor hidden_pairs(const AttentionProgram& program, Range rows, Range columns) {
  at::Tensor hidden = hidden_of_all_texts(program, rows, columns);
  if (program.documents.defined()) {
    const at::Tensor other = of_other_documents(program, rows, columns).unsqueeze(1);
    hidden = hidden.defined() ? other | hidden : other;
  }
  if (!program.key_mask.defined()) return hidden;
  const at::Tensor padding = program.key_mask.slice(1, columns.begin, columns.end)
                                 .logical_not()
                                 .unsqueeze(1)
                                 .unsqueeze(1)
                                 .expand({-1, 1, rows.size(), -1});
  const at::Tensor either = hidden.defined() ? padding | hidden : padding;
  if (!spreads_padding(program)) return either;
  const at::Tensor both = hidden.defined() ? padding & hidden : at::zeros_like(padding);
  return at::where(lost_rows(program, rows), both, either);
}

}  // namespace phasescope::model
