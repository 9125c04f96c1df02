#include "model/families/phasescope.h"

namespace phasescope::model {
namespace phasescope {
namespace {

bool claims(const FamilyInput& input) {
  return input.config.value("model_type", Json()) == "phasescope";
}

Translation translate(const FamilyInput& input) {
  Translation result;
  result.config = read_model_config(input.config, input.where);
  result.encoding_why = "encoding.key in config.json";
  result.place = [](const std::string& name) { return TensorPlace{name}; };
  return result;
}

}  // namespace
}  // namespace phasescope

Family phasescope_family() { return {"phasescope", &phasescope::claims, &phasescope::translate}; }

}  // namespace phasescope::model
