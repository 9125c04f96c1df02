#include "worker/pass_cache.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "analysis/texts.h"

namespace phasescope::worker {

namespace {

constexpr std::size_t kMostEntries = 8;

// A pass holds its model, so that the address names it as long as the entry lives.
std::string key_of(const model::Model* model, const analysis::Text& text, model::Backend backend) {
  analysis::Texts one;
  one.items.push_back({.ids = text.ids,
                       .position_ids = text.position_ids,
                       .token_types = text.token_types,
                       .decoder_ids = text.decoder_ids,
                       .decoder_position_ids = text.decoder_position_ids,
                       .patches = text.patches});
  return std::to_string(reinterpret_cast<std::uintptr_t>(model)) + "/" +
         std::to_string(static_cast<int>(backend)) + "/" + one.hash();
}

}  // namespace

std::shared_ptr<analysis::TextPass> PassCache::get(const std::shared_ptr<const model::Model>& model,
                                                   const analysis::Text& text,
                                                   model::Backend backend,
                                                   protocol::Progress& progress) {
  drop_old();
  const std::string key = key_of(model.get(), text, backend);
  const auto found =
      std::ranges::find_if(entries_, [&key](const Entry& entry) { return entry.key == key; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    model::ForwardOptions options;
    options.backend = backend;
    entries_.push_front(
        {key, std::make_shared<analysis::TextPass>(
                  model, analysis::ids_tensor(text.ids),
                  analysis::with_inputs_of(text, std::move(options)), keep_bytes_)});
  }
  entries_.front().pass->watch(&progress);
  return entries_.front().pass;
}

void PassCache::drop_old() {
  std::map<std::string, std::int64_t> bytes;  // of the passes from the newest on, by device
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    std::int64_t& sum = bytes[entry->pass->model().decoder.device().str()];
    sum += entry->pass->kept_bytes();
    entry = sum > limit_bytes_ ? entries_.erase(entry) : std::next(entry);
  }
  while (entries_.size() >= kMostEntries) entries_.pop_back();
}

void PassCache::forget(const model::Model* model) {
  entries_.remove_if([model](const Entry& entry) { return &entry.pass->model() == model; });
}

PassCache& pass_cache() {
  static PassCache cache;
  return cache;
}

}  // namespace phasescope::worker
