// docs/results.md follows from the results' lists of fields; `./dev docs` makes it again.
#include "protocol/results_page.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "protocol/bench_results.h"
#include "protocol/headings.h"
#include "protocol/messages/ablate.h"
#include "protocol/messages/acuity.h"
#include "protocol/messages/addressing.h"
#include "protocol/messages/bench.h"
#include "protocol/messages/capture.h"
#include "protocol/messages/compare.h"
#include "protocol/messages/convert.h"
#include "protocol/messages/cost.h"
#include "protocol/messages/data.h"
#include "protocol/messages/demand.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/doctor.h"
#include "protocol/messages/duel.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/eval_tasks.h"
#include "protocol/messages/formula.h"
#include "protocol/messages/generate.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/import.h"
#include "protocol/messages/jobs.h"
#include "protocol/messages/map.h"
#include "protocol/messages/models.h"
#include "protocol/messages/pair.h"
#include "protocol/messages/patterns.h"
#include "protocol/messages/profile.h"
#include "protocol/messages/prove.h"
#include "protocol/messages/query.h"
#include "protocol/messages/questions.h"
#include "protocol/messages/reproduce.h"
#include "protocol/messages/shift.h"
#include "protocol/messages/sweep.h"
#include "protocol/messages/text.h"
#include "protocol/messages/theory.h"
#include "protocol/messages/tokenize.h"
#include "protocol/messages/worker.h"
#include "protocol/messages/xray.h"

namespace phasescope::protocol {
namespace {

constexpr const char* kPage = PHASESCOPE_SOURCE "/docs/results.md";
constexpr const char* kHead =
    "# The results\n"
    "\n"
    "Made by `./dev docs` from the structs of `protocol/messages/`, do not edit. These are the "
    "names in the\n"
    "JSON of `--json` and of exported files, and the columns of CSV files. Tables on the terminal "
    "and in the\n"
    "report have the title, where there is one, and the unit in brackets. NaN and infinities are "
    "the strings\n"
    "`\"nan\"`, `\"inf\"` and `\"-inf\"`. A field that is said to be \"or null\" is null where it "
    "has no value, and `why`\n"
    "beside it says why; one \"or absent\" is left out. HeadsResult (`heads`), HeadRow and NearFar "
    "have forms of "
    "their own:\n"
    "`protocol/messages/heads.h` and `distance.h`; every exported result carries Provenance.\n";

std::string made_page() {
  ResultsPage page;
  page.add<ModelsResult>(ModelsRequest::method);
  page.add<FoundResult>(FindRequest::method);
  page.add<LoadReport>(InfoRequest::method);
  page.add<TokenizeResult>(TokenizeRequest::method);
  page.add<TokenizeList>();
  page.add<TextResult>(TextRequest::method);
  page.add<GenerateResult>(GenerateRequest::method);
  page.add<MapResult>(MapRequest::method);
  page.add<QueryResult>(QueryRequest::method);
  page.add<PatternsResult>(PatternsRequest::method);
  page.add<DistanceResult>(DistanceRequest::method);
  page.add<ShiftResult>(ShiftRequest::method);
  page.add<TheoryResult>(TheoryRequest::method);
  page.add<CheckInfo>();
  page.add<QuestionInfo>();
  page.add<AddressingResult>(AddressingRequest::method);
  page.add<DemandResult>(DemandRequest::method);
  page.add<AcuityResult>(AcuityRequest::method);
  page.add<XrayResult>(XrayRequest::method);
  page.add<PairResult>(PairRequest::method);
  page.add<ProfileResult>(ProfileRequest::method);
  page.add<ProveResult>(ProveRequest::method);
  page.add<FormulaResult>(FormulaRequest::method);
  page.add<ImportResult>(ImportRequest::method);
  page.add<CompareResult>(CompareRequest::method);
  page.add<DuelResult>(DuelRequest::method);
  page.add<FolderResult>(FolderRequest::method);
  page.add<AblateResult>(AblateRequest::method);
  page.add<EvalResult>(EvalRequest::method);
  page.add<EvalTasks>(EvalListRequest::method);
  page.add<CostResult>(CostRequest::method);
  page.add<CaptureResult>(CaptureRequest::method);
  page.add<ReferenceCheckResult>(CheckRequest::method);
  page.add<ConvertResult>(ConvertRequest::method);
  page.add<JobsResult>(JobsRequest::method);
  page.add<ConfigForm>(FormRequest::method);
  page.add<SweepResult>(SweepRequest::method);
  page.add<SlurmResult>(SlurmRequest::method);
  page.add<KeptResult>(KeepRequest::method);
  page.add<ReproduceResult>();
  page.add<DataResult>();
  page.add<DataCheckResult>();
  page.add<DoctorResult>();
  page.add<AttentionBench>(KernelsBenchRequest::method);
  page.add<BenchResult>(LoadBenchRequest::method);
  page.add<StepBench>(StepBenchRequest::method);
  return kHead + page.text();
}

struct Inner {
  double loss = 0;
  template <class V>
  void fields(V& v) {
    v("loss", loss, About{.title = "mean loss", .unit = "nats"});
  }
};
struct Outer {
  std::string name;
  std::vector<Inner> rows;
  IntervalEnd low;
  template <class V>
  void fields(V& v) {
    v("name", name), v("rows", rows), v("low", low, About{.unit = "nats"});
  }
};

TEST(Headings, AreTitlesWithUnitsWhereFieldsHaveThem) {
  EXPECT_EQ(headings_of<Outer>(), (std::map<std::string, std::string>{
                                      {"name", "name"}, {"rows", "rows"}, {"low", "low (nats)"}}));
  EXPECT_EQ(headings_of<Inner>().at("loss"), "mean loss (nats)");
}

TEST(ResultsPage, HasASectionForEachStructOnce) {
  ResultsPage page;
  page.add<ShiftResult>(ShiftRequest::method);
  page.add<ShiftRow>();
  const std::string& text = page.text();
  EXPECT_NE(text.find("## ShiftResult\n\nThe answer to `shift`.\n"), std::string::npos) << text;
  EXPECT_NE(text.find("| `rows` | list of ShiftRow |"), std::string::npos) << text;
  EXPECT_NE(text.find("| `by` | whole number |  | tokens |"), std::string::npos) << text;
  const std::size_t section = text.find("## ShiftRow\n");
  ASSERT_NE(section, std::string::npos);
  EXPECT_EQ(text.find("## ShiftRow\n", section + 1), std::string::npos);
}

TEST(ResultsPage, IsFresh) {
  const std::string made = made_page();
  // An undefined number is null and its reason stands beside it: nothing measured is left out.
  EXPECT_EQ(made.find("Interval, or absent"), std::string::npos);
  if (std::getenv("PHASESCOPE_WRITE_DOCS")) {
    std::ofstream(kPage) << made;
    return;
  }
  std::ifstream file(kPage);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(page, made) << "run ./dev docs";
}

}  // namespace
}  // namespace phasescope::protocol
