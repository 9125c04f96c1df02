// The last few texts that models have read, so that the views of one text share one forward pass.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "analysis/text_pass.h"
#include "protocol/progress.h"

namespace phasescope::worker {

class PassCache {
 public:
  // `limit_bytes`: of all passes kept of models on one device; the ones used longest ago go first.
  explicit PassCache(std::int64_t limit_bytes = std::int64_t{512} << 20)
      : limit_bytes_(limit_bytes) {}

  // The pass of this text through this model, run or not. Its forward passes report to `progress`
  // until the next call.
  std::shared_ptr<analysis::TextPass> get(const std::shared_ptr<const model::Model>& model,
                                          const analysis::Text& text, model::Backend backend,
                                          protocol::Progress& progress);
  std::size_t size() const { return entries_.size(); }
  void clear() { entries_.clear(); }
  // The passes of a model that is kept no longer; they would keep its weights.
  void forget(const model::Model* model);

  // As long as it lives, passes that are made keep no more than so many bytes each.
  class Keeping {
   public:
    Keeping(PassCache& cache, std::int64_t bytes)
        : cache_(cache), before_(std::exchange(cache.keep_bytes_, bytes)) {}
    ~Keeping() { cache_.keep_bytes_ = before_; }
    Keeping(const Keeping&) = delete;
    Keeping& operator=(const Keeping&) = delete;

   private:
    PassCache& cache_;
    std::int64_t before_;
  };

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<analysis::TextPass> pass;
  };
  void drop_old();

  std::int64_t limit_bytes_;
  std::int64_t keep_bytes_ = std::int64_t{192} << 20;  // of a pass
  std::list<Entry> entries_;                           // newest first
};

// The worker's. Handlers run one after another in one thread.
PassCache& pass_cache();

}  // namespace phasescope::worker
