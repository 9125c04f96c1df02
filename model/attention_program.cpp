#include "model/attention_program.h"

#include <ATen/ATen.h>

#include <utility>

namespace phasescope::model {

DistanceRange TermRegion::distance_range() const {
  if (distances) return *distances;
  const at::Tensor distance = query_id - key_id;
  return {distance.min().item<std::int64_t>(), distance.max().item<std::int64_t>()};
}

const char* AttentionProgram::name() const {
  return std::visit([](const auto& of) { return of.kName; }, variant);
}

const FireProgram* AttentionProgram::fire() const {
  if (const auto* own = as<FireProgram>()) return own;
  const auto* cape = as<CapeProgram>();
  return cape != nullptr && cape->fire ? &*cape->fire : nullptr;
}

FireProgram* AttentionProgram::fire() {
  return const_cast<FireProgram*>(std::as_const(*this).fire());
}

const TermProgram* AttentionProgram::term() const {
  if (const FireProgram* pieces = fire()) return &pieces->term;
  return as<TermProgram>();
}

TermProgram* AttentionProgram::term() {
  return const_cast<TermProgram*>(std::as_const(*this).term());
}

bool adds_by_query(const AttentionProgram& program) {
  bool found = program.is<CapeProgram>() || program.term() != nullptr;
  for_each_added(program, [&found](const TensorInfo& info, const at::Tensor&) {
    found = found || info.query_dim >= 0;
  });
  return found;
}

}  // namespace phasescope::model
