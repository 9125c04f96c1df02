#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/window/session.h"

namespace phasescope::app {

// Owns the session and its history. Every change goes through apply(), so that every change can be
// undone and every view learns of it by the revision.
class SessionHistory {
 public:
  explicit SessionHistory(Session session) : session_(std::move(session)) { give_colors(session_); }

  const Session& session() const { return session_; }
  // Grows with every change; equal revisions mean an equal session.
  std::uint64_t revision() const { return revision_; }

  // Changes the session. Changes with the same non-empty `merge` that follow each other are one
  // step of undo (typing, zooming). A change that changes nothing is forgotten.
  void apply(const std::string& title, const std::function<void(Session&)>& change,
             const std::string& merge = "");
  // Changes it without a step of undo, for what is no decision of the user (window layout).
  void apply_silently(const std::function<void(Session&)>& change);

  bool undo();
  bool redo();
  // What the next undo or redo would take back; empty when there is nothing.
  std::string undo_title() const;
  std::string redo_title() const;

 private:
  struct Step {
    std::string title, merge;
    Session before;
  };
  void restore(std::vector<Step>& from, std::vector<Step>& to);

  Session session_;
  std::vector<Step> past_, future_;
  std::uint64_t revision_ = 1;
};

}  // namespace phasescope::app
