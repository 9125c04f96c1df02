// The last few texts that models have read, so that the views of one text share one forward pass.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "analysis/text_pass.h"
#include "protocol/progress.h"

namespace phasescope::worker {

class PassCache {
 public:
  // `limit_bytes`: of all passes kept; the ones used longest ago go first.
  explicit PassCache(std::int64_t limit_bytes = std::int64_t{512} << 20)
      : limit_bytes_(limit_bytes) {}

  // The pass of this text through this model, run or not. Its forward passes report to `progress`
  // until the next call.
  std::shared_ptr<analysis::TextPass> get(const std::shared_ptr<const model::Model>& model,
                                          const analysis::Text& text, model::Backend backend,
                                          protocol::Progress& progress);
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<analysis::TextPass> pass;
  };
  void drop_old();

  std::int64_t limit_bytes_;
  std::list<Entry> entries_;  // newest first
};

// The worker's. Handlers run one after another in one thread.
PassCache& pass_cache();

}  // namespace phasescope::worker
