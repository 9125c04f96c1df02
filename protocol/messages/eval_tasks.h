#pragma once
// The answer to eval.list: every extrapolation task with its options.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/request.h"

namespace phasescope::protocol {

// One option of a task, by the key that an EvalRequest has it under.
struct EvalOptionInfo {
  std::string key;
  json fallback;
  std::string help, choices;
  template <class V>
  void fields(V& v) {
    v("key", key), v("fallback", fallback), v("help", help), v("choices", choices);
  }
};

// The fields of a task's struct of options (eval.h).
template <class Options>
std::vector<EvalOptionInfo> options_of() {
  Options options;
  std::vector<EvalOptionInfo> list;
  for (const BoundField& field : detail::bound_fields(options)) {
    list.push_back({field.key, field.write(), field.about.help, field.about.choices});
  }
  return list;
}

// `source`: where the task and its published numbers come from.
struct EvalTaskInfo {
  std::string key, title, help, source;
  std::vector<EvalOptionInfo> options;
  template <class V>
  void fields(V& v) {
    v("key", key), v("title", title), v("help", help), v("source", source), v("options", options);
  }
};

struct EvalTasks {
  std::vector<EvalTaskInfo> tasks;
  template <class V>
  void fields(V& v) {
    v("tasks", tasks);
  }
};

}  // namespace phasescope::protocol
