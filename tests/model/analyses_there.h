#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "analysed_models.h"
#include "golden.h"
#include "other_device.h"
#include "protocol/progress.h"
#include "watched_layers.h"

// Analyses of one model on the CPU and on the second device: the same answers, and what crosses
// while its layers run.

namespace phasescope::model {

struct PhantomSide {
  static PhantomCounts counts() { return phantom_counts(); }
  static const void* memory_of(const at::Tensor& x) { return x.storage().data(); }
  static void tell_reads(MemoryRead told) { watch_phantom_reads(std::move(told)); }
};
using LayerWatch = WatchedLayers<PhantomSide>;

// What an analysis gives of a model, or why it has no answer for it.
template <class Call>
std::string said(const Call& call, const std::shared_ptr<const Model>& model) {
  try {
    return words(call(model));
  } catch (const formats::Error& error) {
    return error.full_text();
  }
}

class AnalysesThere : public testing::TestWithParam<Variant> {
 protected:
  AnalysesThere() { at::set_num_threads(1); }

  // The same answer of both; one that there is at all, of encodings that `call` takes for sure.
  // While a layer runs nothing goes to the device and no value is asked for.
  template <class Call>
  void expect_same(const Call& call, const std::set<std::string>& answered = {"rope", "alibi"}) {
    expect_same(call, model_, device_, answered);
  }
  template <class Call>
  void expect_same(const Call& call, const std::shared_ptr<const Model>& model,
                   const std::shared_ptr<const Model>& device,
                   const std::set<std::string>& answered) {
    const std::string real = said(call, model);
    watch_.reset();
    const std::string found = said(call, device);
    EXPECT_EQ(watch_.to_device(), 0) << "copies to the device within layers";
    EXPECT_EQ(watch_.reads(), 0) << "values asked for within layers";
    if (real.starts_with('{')) {
      EXPECT_GE(watch_.layers(), model->config().layers) << "no pass was watched";
    }
    if (rounds_otherwise(GetParam()) && real.starts_with('{') && found.starts_with('{')) {
      expect_near(Json::parse(found), Json::parse(real), GetParam().name);
    } else {
      EXPECT_EQ(found, real);
    }
    if (answered.contains(GetParam().name)) {
      EXPECT_EQ(real.front(), '{') << real;
    }
  }

  const std::shared_ptr<const Model> model_ = tiny_model(GetParam(), at::kFloat);
  const std::shared_ptr<const Model> device_ = there(model_);
  LayerWatch watch_{*device_};
  mutable protocol::NoProgress progress_;
};

}  // namespace phasescope::model
