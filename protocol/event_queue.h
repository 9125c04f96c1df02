// Callbacks that wait for the thread that wants to run them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <mutex>
#include <utility>

namespace phasescope::protocol {

class EventQueue {
 public:
  using Event = std::function<void()>;

  void push(Event event) { put(0, std::move(event)); }

  // Replaces the event pushed last with this key when that still waits: only the newest progress of
  // a request is of interest. Keys are not 0.
  void push_newest(std::uint64_t key, Event event) { put(key, std::move(event)); }

  // Runs what waits now, not what comes meanwhile. Returns how many. What an event throws goes
  // through; those after it wait for the next run.
  std::size_t run() {
    std::deque<Entry> entries;
    {
      std::lock_guard lock(mutex_);
      entries.swap(entries_);
    }
    const std::size_t count = entries.size();
    const PutBack put_back{*this, entries};
    while (!entries.empty()) {
      const Event event = std::move(entries.front().event);
      entries.pop_front();
      event();
    }
    return count;
  }

  bool wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return !entries_.empty(); });
  }

 private:
  struct Entry {
    std::uint64_t key;
    Event event;
  };

  // Puts what was not run before what has come since.
  struct PutBack {
    EventQueue& queue;
    std::deque<Entry>& left;
    ~PutBack() {
      if (left.empty()) return;
      std::lock_guard lock(queue.mutex_);
      left.insert(left.end(), std::move_iterator(queue.entries_.begin()),
                  std::move_iterator(queue.entries_.end()));
      queue.entries_.swap(left);
    }
  };

  void put(std::uint64_t key, Event event) {
    std::lock_guard lock(mutex_);
    if (key != 0) {
      for (auto& entry : entries_) {
        if (entry.key == key) {
          entry.event = std::move(event);
          return;
        }
      }
    }
    entries_.push_back({key, std::move(event)});
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
};

}  // namespace phasescope::protocol
