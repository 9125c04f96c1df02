#include "model/checkpoints/conversions/to_own_form.h"

namespace phasescope::model {
namespace {

ConversionPlan plan(CheckpointReader& reader, const ConvertOptions& options) {
  ConversionPlan plan = canonical_plan(reader, options, changed_config(reader, options), {});
  plan.notes.emplace_back("names and config.json are Phasescope's own form");
  return plan;
}

}  // namespace

Conversion to_own_form_conversion() {
  return {"phasescope", "any model, as one file with this program's names and config.json", &plan};
}

}  // namespace phasescope::model
