// A refusal names the fields of its request, whoever asked.
#include "worker/field_words.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "formats/error.h"
#include "protocol/error_info.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;

const std::vector<protocol::FieldInfo> kFields = {
    {"rows"}, {"leave_out_first"}, {"input"}, {"out"}, {"make"}};

std::string named(const std::string& words) { return with_keys_for_options(words, kFields); }

TEST(FieldWords, OptionsAreTheKeysOfTheirFields) {
  EXPECT_EQ(named("--rows 0:9 would fit"), "`rows` 0:9 would fit");
  EXPECT_EQ(named("fewer (--leave-out-first), or no --rows"),
            "fewer (`leave_out_first`), or no `rows`");
  EXPECT_EQ(named("give --text or --prompt"), "give `input.text` or `input.prompt`");
}

TEST(FieldWords, WhatIsNoFieldOfTheRequestStays) {
  EXPECT_EQ(named("add --resume to go on"), "add --resume to go on");
  EXPECT_EQ(named("no file \"--rows\""), "no file \"--rows\"");
  EXPECT_EQ(named("a--rows and x/--rows and --rows/x"), "a--rows and x/--rows and --rows/x");
  EXPECT_EQ(named("no --rows: phasescope prove --make FOLDER --out F"),
            "no `rows`: phasescope prove --make FOLDER --out F");
  EXPECT_EQ(with_keys_for_options("give --text", {{"rows"}}), "give --text");
  EXPECT_EQ(named("--"), "--");
}

// The error that a handler which throws `thrown` ends with.
template <class E>
protocol::ErrorInfo refusal(const E& thrown) {
  class Nobody final : public RequestContext {
   public:
    void progress(double, std::string_view) override {}
    bool cancelled() const override { return false; }
    std::span<const protocol::TensorRef> tensors() const override { return {}; }
    const WorkerSettings& settings() const override { throw std::logic_error("not asked"); }
    ModelCache& models() const override { throw std::logic_error("not asked"); }
    const json& facts() const override { throw std::logic_error("not asked"); }
  } context;
  const Handler handler{"capture", "",
                        [&](const json&, RequestContext&) -> protocol::Reply { throw thrown; },
                        kFields};
  try {
    with_named_fields(handler).run({}, context);
  } catch (const formats::Error& error) {
    return {error.code(), error.message(), error.where(), error.hint()};
  } catch (const protocol::RequestError& error) {
    return error.info();
  }
  return {};
}

TEST(FieldWords, ErrorsOfHandlersHaveThem) {
  const protocol::ErrorInfo keys{"bad_usage", "no `out`", "leave_out_first", "try `rows` 0:4"};
  EXPECT_EQ(refusal(formats::bad_usage("no --out", "--leave-out-first", "try --rows 0:4")), keys);
  EXPECT_EQ(refusal(protocol::RequestError(
                {"bad_usage", "no --out", "--leave-out-first", "try --rows 0:4"})),
            keys);
  const protocol::ErrorInfo path{"bad_input", "it cannot be read", "a/--rows/b", ""};
  EXPECT_EQ(refusal(formats::bad_input("it cannot be read", "a/--rows/b")), path);
}

}  // namespace
}  // namespace phasescope::worker
