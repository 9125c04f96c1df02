#pragma once

#include <map>

#include "app/views/view.h"
#include "widgets/plot_draw.h"

namespace phasescope::app {

// What the encoding itself does: dot products of positions, drift with depth, bias, frequencies.
class PatternsView : public View {
 public:
  std::string id() const override { return "patterns"; }
  std::string title() const override { return "PE patterns"; }
  std::string help_text() const override;
  void ask(ViewContext& context) override;
  void draw_content(ViewContext& context) override;
  std::string kernels(const ViewContext& context) const override {
    return kernels_of(context, &ModelQuestions::patterns);
  }
  Output exported(ViewContext& context) override;
  std::string command_line(const Session& session) const override;

 private:
  using PatternsAnswer = Answer<protocol::PatternsResult>;
  struct Picture {
    widgets::HeatmapTexture texture;
    Cached<widgets::PlotSpec> plot;
    std::uint64_t texture_version = 0;
  };
  void draw_controls(ViewContext& context);
  void draw_model(ViewContext& context, std::size_t index);
  // No plot where the encoding has no such thing.
  std::optional<widgets::PlotSpec> plot_of(const Session& session,
                                           const PatternsAnswer& answer) const;
  std::optional<widgets::PlotSpec> plot_of(const Session& session, const PatternsAnswer& answer,
                                           const std::string& figure) const;

  std::map<std::string, Picture> pictures_;
};

}  // namespace phasescope::app
