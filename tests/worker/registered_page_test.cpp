// docs/registered.md follows from the lists of encodings, metrics, tasks, families and forms of
// checkpoints. PHASESCOPE_WRITE_DOCS makes it again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "analysis/metrics/registry.h"
#include "formats/tensors/ggml_blocks.h"
#include "formats/text_input.h"
#include "model/checkpoints/conversions/conversion.h"
#include "model/encoding.h"
#include "model/families/family.h"
#include "tasks/task.h"

namespace phasescope::worker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRegisteredPage = PHASESCOPE_SOURCE "/docs/registered.md";
const std::string kRegisteredBegin =
    "<!-- registered: made by the test RegisteredPage.IsFresh, do not edit -->\n";

// Of plain text in a page: nothing in it is a tag, emphasis or the end of a cell.
std::string plain_words(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '*' || c == '|' || c == '_') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string named_line(const std::string& name, const std::string& words) {
  return words.empty() ? "" : "- " + name + ": " + plain_words(words) + "\n";
}

std::string options_line(const model::EncodingInfo& info) {
  std::string line;
  for (const model::OptionInfo& option : info.options) {
    line += (line.empty() ? "" : ", ") + ("`" + option.key + "` (" + option.fallback.dump() + ")");
  }
  return line.empty() ? "" : "- options with their defaults: " + line + "\n";
}

// The run configuration of a model with the encoding, or of one of its forms.
std::string configuration_of(const std::string& key) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(PHASESCOPE_SOURCE "/sample_configs/desk")) {
    const std::string name = entry.path().stem().string();
    if (name == key || name.starts_with(key + "_")) names.push_back(name);
  }
  return names.empty() ? "" : *std::ranges::min_element(names);
}

// The picture of its bias or angles, where ./dev pictures has one, below the commands that draw it.
std::string picture_lines(const std::string& key) {
  const fs::path folder = fs::path(PHASESCOPE_SOURCE "/docs/images/encodings") / key;
  std::string lines;
  if (!fs::exists(folder)) return lines;
  const std::string config = configuration_of(key);
  lines = "- as it is drawn before any training: `phasescope convert sample_configs/desk/" +
          config + ".json --to random --out out/" + key + " && phasescope patterns out/" + key +
          " --length 128 --out out/patterns`\n";
  for (const auto& entry : fs::directory_iterator(folder)) {
    lines +=
        "\n![" + key + "](images/encodings/" + key + "/" + entry.path().filename().string() + ")\n";
  }
  return lines;
}

std::string encodings_part() {
  std::string page = "## Encodings\n";
  for (const model::EncodingEntry& entry : model::encodings()) {
    const model::EncodingInfo& info = *entry.info;
    page += "\n### `" + info.key + "`: " + plain_words(info.title) + "\n\n";
    page += info.formula.empty() ? "" : "- formula: `" + info.formula + "`\n";
    page += named_line("source", info.source) + named_line("departs from it", info.departure);
    page += options_line(info) + picture_lines(info.key);
  }
  return page;
}

std::string metrics_part() {
  std::string page = "\n## Metrics of heads\n\n| key | formula | note |\n|---|---|---|\n";
  const auto add = [&](const protocol::MetricInfo& info) {
    page += "| `" + info.key + "` | " + plain_words(info.formula) + " | " + plain_words(info.note) +
            " |\n";
  };
  for (const analysis::HeadMetric& metric : analysis::head_metrics()) add(metric.info);
  for (const protocol::MetricInfo& info : analysis::extra_metrics()) add(info);
  return page;
}

std::string tasks_part() {
  std::string page = "\n## Tasks\n\n| key | what is asked | metric | source |\n|---|---|---|---|\n";
  for (const auto& task : tasks::all_tasks()) {
    const tasks::TaskInfo& info = task->info();
    page += "| `" + info.key + "` | " + plain_words(info.help) + " | `" + info.metric + "` | " +
            plain_words(info.source) + " |\n";
  }
  return page;
}

std::string checkpoints_part() {
  std::string families;
  for (const model::Family& family : model::families()) {
    families += (families.empty() ? "`" : ", `") + std::string(family.key) + "`";
  }
  std::string page =
      "\n## Checkpoints\n\nFamilies, in the order in which they are asked: " + families +
      ".\n\nTypes of tensors in GGUF files: " + formats::known_ggml_types() +
      ".\n\nConversions:\n\n";
  for (const model::Conversion& conversion : model::conversions()) {
    page += "- `" + std::string(conversion.key) + "`: " + plain_words(conversion.help) + "\n";
  }
  return page;
}

std::string registered() {
  return encodings_part() + metrics_part() + tasks_part() + checkpoints_part();
}

TEST(RegisteredPage, IsFresh) {
  const std::string text = formats::read_text_file(kRegisteredPage);
  const std::size_t begin = text.find(kRegisteredBegin);
  ASSERT_NE(begin, std::string::npos);
  const std::string head = text.substr(0, begin + kRegisteredBegin.size());
  if (std::getenv("PHASESCOPE_WRITE_DOCS") != nullptr) {
    std::ofstream(kRegisteredPage) << head + registered();
    return;
  }
  EXPECT_EQ(text.substr(head.size()), registered()) << "run it with PHASESCOPE_WRITE_DOCS=1";
}

// What an encoding does by the content alone, or with a file's tables, has no picture before
// training.
TEST(RegisteredPage, EveryOtherEncodingHasAPicture) {
  const std::vector<std::string> without = {
      "none", "liere", "fox", "pope", "repo", "tapa", "selective_rope", "tape_circuit", "imported"};
  for (const model::EncodingEntry& entry : model::encodings()) {
    const std::string& key = entry.info->key;
    EXPECT_EQ(picture_lines(key).empty(), std::ranges::find(without, key) != without.end()) << key;
  }
}

TEST(RegisteredPage, EveryEncodingHasItsFormulaAndSource) {
  for (const model::EncodingEntry& entry : model::encodings()) {
    EXPECT_FALSE(entry.info->formula.empty()) << entry.info->key;
    EXPECT_FALSE(entry.info->source.empty()) << entry.info->key;
  }
}

}  // namespace
}  // namespace phasescope::worker
