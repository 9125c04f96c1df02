#pragma once
// What the models of a figure, a table, a page or the window are called and which colour they have.
// A model is the name it was asked for by, "rope (yarn x2)" or "runs/a/checkpoint-1000": two
// folders of one name are two models.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "protocol/messages/compare.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/shift.h"
#include "protocol/messages/theory.h"

namespace phasescope::app {

class ModelNames {
 public:
  ModelNames() = default;
  // In the order of their colours. A name that occurs twice is one model.
  explicit ModelNames(const std::vector<std::string>& models);
  // `colors`: whose each colour is, "" for nobody's; models that have none follow. `taken`: names
  // of models that could be meant though they are not among these, as the bundled ones.
  ModelNames(const std::vector<std::string>& models, std::vector<std::string> colors,
             std::vector<std::string> taken = {});

  // The shortest end of the model's path that the path of no other model has, and of none whose
  // name is taken: "checkpoint-1000", or "a/checkpoint-1000" beside "b/checkpoint-1000"; its
  // settings stand behind it. All of the name where the path of another one ends in it. Of a model
  // that is not among them: as if it were.
  std::string short_name(const std::string& model) const;
  // The short name in letters, digits, '-', '.' and '_' alone; two models have different ones.
  std::string file_name(const std::string& model) const;
  // For widgets::series_color; the same whatever was answered so far.
  int color(const std::string& model) const;
  const std::vector<std::string>& models() const { return models_; }

 private:
  std::vector<std::string> models_, colors_, taken_;
};

// The models of a result, in the order in which it names them.
ModelNames names_in(const protocol::CompareResult& result);
ModelNames names_in(const protocol::DistanceResult& result);
ModelNames names_in(const protocol::EvalResult& result);
ModelNames names_in(const protocol::ShiftResult& result);
ModelNames names_in(const protocol::TheoryResult& result);

}  // namespace phasescope::app
