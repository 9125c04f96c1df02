#include <algorithm>

#include "analysis/theory/ape_absolute.h"
#include "analysis/theory/ape_commutator.h"
#include "analysis/theory/ape_composite.h"
#include "analysis/theory/ape_decomposition.h"
#include "analysis/theory/ape_faithful.h"
#include "analysis/theory/ape_group_laws.h"
#include "analysis/theory/ape_no_order.h"
#include "analysis/theory/ape_orthogonal.h"
#include "analysis/theory/ape_periodic_domain.h"
#include "analysis/theory/ape_reflection.h"
#include "analysis/theory/ape_rope_equivalence.h"
#include "analysis/theory/cape_adaptive.h"
#include "analysis/theory/cape_cost.h"
#include "analysis/theory/cape_expressive.h"
#include "analysis/theory/cape_reduces.h"
#include "analysis/theory/cape_surface.h"
#include "analysis/theory/check.h"
#include "analysis/theory/rope_assumption.h"
#include "analysis/theory/rope_base_shrinks_gap.h"
#include "analysis/theory/rope_effective_context.h"
#include "analysis/theory/rope_instability.h"
#include "analysis/theory/rope_intrinsic_bias.h"
#include "analysis/theory/rope_lemma.h"
#include "analysis/theory/rope_local_gap.h"
#include "analysis/theory/tapa_decay.h"
#include "analysis/theory/tapa_dimension.h"
#include "analysis/theory/tapa_histogram.h"
#include "analysis/theory/tapa_linear_phase.h"
#include "analysis/theory/tapa_nondegenerate.h"
#include "analysis/theory/tapa_phi_zero.h"
#include "analysis/theory/tape_circuit.h"
#include "analysis/theory/tape_identity_layer.h"
#include "analysis/theory/tape_layer_equivariance.h"
#include "analysis/theory/tape_neighbourhood_mean.h"
#include "analysis/theory/tape_orthogonal.h"
#include "analysis/theory/tape_permutation.h"
#include "analysis/theory/tape_real_shift.h"
#include "analysis/theory/tape_shift.h"
#include "analysis/theory/tape_softmax_per_plane.h"
#include "analysis/theory/tape_special_case.h"
#include "analysis/theory/tape_wy.h"
#include "analysis/theory/verdicts.h"
#include "formats/error.h"
#include "formats/near_names.h"

namespace phasescope::analysis {

const std::vector<TheoryCheck>& theory_checks() {
  static const std::vector<TheoryCheck> list = {
      tape_permutation(),
      tape_orthogonal(),
      tape_shift(),
      tape_real_shift(),
      tape_special_case(),
      tape_circuit(),
      tape_wy(),
      tape_identity_layer(),
      tape_neighbourhood_mean(),
      tape_layer_equivariance(),
      tape_softmax_per_plane(),
      rope_assumption(),
      rope_intrinsic_bias(),
      rope_lemma(),
      rope_instability(),
      rope_local_gap(),
      rope_base_shrinks_gap(),
      rope_effective_context(),
      tapa_decay(),
      tapa_nondegenerate(),
      tapa_histogram(),
      tapa_phi_zero(),
      tapa_dimension(),
      tapa_linear_phase(),
      cape_reduces(),
      cape_expressive(),
      cape_adaptive(),
      cape_cost(),
      cape_surface(),
      ape_group_laws(),
      ape_orthogonal(),
      ape_rope_equivalence(),
      ape_composite(),
      ape_no_order(),
      ape_decomposition(),
      ape_faithful(),
      ape_reflection(),
      ape_commutator(),
      ape_periodic(),
      ape_absolute(),
  };
  return list;
}

std::vector<TheoryCheck> select_checks(const std::vector<std::string>& ids) {
  if (ids.empty()) return theory_checks();
  std::vector<TheoryCheck> chosen;
  for (const std::string& id : ids) {
    const auto at = std::ranges::find_if(
        theory_checks(), [&id](const TheoryCheck& check) { return check.info.id == id; });
    if (at != theory_checks().end()) {
      chosen.push_back(*at);
      continue;
    }
    std::vector<std::string> known;
    for (const TheoryCheck& check : theory_checks()) known.push_back(check.info.id);
    throw formats::bad_usage("there is no check \"" + id + "\"", "check",
                             formats::hint_of_names({id}, known));
  }
  return chosen;
}

namespace {

// Why the statement is not of this model, whatever its check would measure; empty where it may be.
std::string not_of_this_model(const TheoryCheck& check, const CheckContext& context) {
  if (context.model == nullptr) return {};
  if (!check.reads_models()) {
    return "the statement is of a construction and of no model; without one the check measures it";
  }
  bool changed = false;
  for (std::int64_t layer = 0; layer < context.model->config().layers; ++layer) {
    changed = changed || context.model->decoder.repairs_of(layer).changes_scores();
  }
  if (!changed || check.of_changed_scores) return {};
  return "premise: scores as the encoding makes them; this reading changes those of some heads";
}

// The answer with whose it is.
CheckResult attributed(CheckResult result, const TheoryCheck& check, const CheckContext& context) {
  result.id = check.info.id;
  result.statement = check.info.statement;
  result.source = check.info.source;
  result.model = context.model != nullptr ? context.model->report.name : "construction";
  result.seed = static_cast<std::int64_t>(context.seed);
  return result;
}

}  // namespace

CheckResult run_check(const TheoryCheck& check, const CheckContext& context) {
  if (context.model == nullptr && !check.runs_alone()) {
    throw formats::bad_usage(check.info.id + " needs a model", "models");
  }
  const std::string why_not = not_of_this_model(check, context);
  return attributed(
      why_not.empty() ? check.run(context) : not_measured(Verdict::premise_not_met, why_not), check,
      context);
}

CheckResult run_check_among_others(const TheoryCheck& check, const CheckContext& context) {
  try {
    return run_check(check, context);
  } catch (const formats::Error& error) {
    const std::string& code = error.code();
    if (code == "cancelled" || code == "bad_usage" || code == "out_of_memory") throw;
    return attributed(not_measured(Verdict::undecided, "not measured: " + error.full_text()), check,
                      context);
  }
}

}  // namespace phasescope::analysis
