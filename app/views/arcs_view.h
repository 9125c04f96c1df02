#pragma once

#include "app/views/view.h"
#include "protocol/messages/map.h"
#include "widgets/arcs.h"

namespace phasescope::app {

struct ArcsState {
  static constexpr const char* kView = "arcs";
  std::int64_t keys = 3;  // of each query, those with the largest weights
  template <class V>
  void fields(V& v) {
    v("keys", keys);
  }
};

inline constexpr Asks<protocol::MapResult> kArcs{"arcs", protocol::MapRequest::method,
                                                 "finding the largest weights"};

// The text twice, as queries and as keys, and between them the largest weights of the selected
// head.
class ArcsView : public View {
 public:
  // The most queries that are asked for: those on show in the map, or around the selected one.
  static constexpr std::int64_t kMostQueries = 2048;

  std::string id() const override { return "arcs"; }
  std::string title() const override { return "Arcs"; }
  std::string help_text() const override;
  Slot slot() const override { return Slot::right; }
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  WhatRan kernels(const ViewContext& context) const override;
  std::vector<Saved> saved(ViewContext& context) override;
  std::string command_line(const ViewContext& context) const override;

 private:
  using MapAnswer = Answer<protocol::MapResult>;
  const MapAnswer* answer_of(const ViewContext& context) const;
  void draw_controls(ViewContext& context);
  void draw_answer(ViewContext& context, const MapAnswer& answer);
  void draw_words(const ViewContext& context, const MapAnswer& answer,
                  const widgets::ArcsDrawn& drawn) const;

  Cached<std::vector<widgets::Arc>> arcs_;
  std::int64_t tokens_ = 0;               // read of the text when it was last asked
  std::optional<std::int64_t> revealed_;  // the selected query that was scrolled to
};

}  // namespace phasescope::app
