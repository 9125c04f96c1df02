#include "analysis/theory/page.h"

#include "analysis/theory/check.h"

namespace phasescope::analysis {
namespace {

// What a group of ids is of.
std::string heading_of(const std::string& group) {
  if (group == "tape") return "TAPE: positions updated by the content (arXiv 2501.00712)";
  if (group == "rope") return "RoPE: the distance-bias theory (arXiv 2509.12635)";
  if (group == "tapa") return "TAPA: token-aware phase attention (arXiv 2509.12635)";
  if (group == "cape") return "CAPE: context-adaptive bias (arXiv 2405.14722)";
  return "APE: positions as orthogonal matrices (arXiv 2312.16045)";
}

void add_line(std::string& page, const char* name, const std::string& text) {
  if (!text.empty()) page += std::string("- ") + name + ": " + text + "\n";
}

// The bundled model that a check which needs one is drawn on.
std::string drawn_on(const std::string& group) { return group == "cape" ? "cape_kerple" : group; }

// The command and its figure; `./dev pictures` runs the one and copies the other.
void add_picture(std::string& page, const TheoryCheck& check, const std::string& group) {
  const bool alone = check.runs_alone();
  const std::string& id = check.info.id;
  add_line(page, "picture",
           "`phasescope theory " + (alone ? "" : drawn_on(group) + " ") + "--check " + id +
               " --out out/theory`");
  page += "\n![" + id + "](images/theory/" + id + "_" + (alone ? "construction" : drawn_on(group)) +
          ".svg)\n";
}

}  // namespace

std::string page_of_checks() {
  std::string page, group;
  for (const TheoryCheck& check : theory_checks()) {
    const protocol::CheckInfo& info = check.info;
    const std::string of = info.id.substr(0, info.id.find('.'));
    if (of != group) page += "\n## " + heading_of(of) + "\n";
    group = of;
    page += "\n### `" + info.id + "`: " + info.title + "\n";
    add_line(page, "statement", info.statement);
    add_line(page, "source", info.source);
    add_line(page, "needs", info.needs);
    add_line(page, "verdict", info.rule);
    add_picture(page, check, of);
  }
  return page;
}

}  // namespace phasescope::analysis
