#include "tasks/vocabulary.h"

namespace phasescope::tasks {

bool has_own_ids(const Task& task) { return task.info().form != Form::text; }

std::vector<std::string> symbols_of(const Task& task) {
  const bool placeholder = task.info().form == Form::placeholders;
  const std::int64_t read = task.info().input_symbols + (placeholder ? 1 : 0);
  std::vector<std::string> symbols;
  if (task.info().form == Form::image) {
    for (std::int64_t id = 0; id < task.info().output_symbols; ++id) {
      symbols.push_back(task.output_symbol(id));
    }
    symbols.emplace_back("[piece]");
    return symbols;
  }
  for (std::int64_t id = 0; id < task.vocabulary(); ++id) {
    symbols.push_back(id < read ? task.input_symbol(id) : task.output_symbol(id));
  }
  return symbols;
}

Json tokenizer_of(const Task& task) {
  Json tokenizer{{"type", "symbols"}, {"task", task.info().key}, {"symbols", symbols_of(task)}};
  if (task.info().bos >= 0) tokenizer["bos"] = task.info().bos;
  return tokenizer;
}

const Task* task_of_tokenizer(const Json& tokenizer) {
  const bool named =
      tokenizer.is_object() && tokenizer.contains("task") && tokenizer.at("task").is_string();
  return named ? find_task(tokenizer.at("task").get<std::string>()) : nullptr;
}

}  // namespace phasescope::tasks
