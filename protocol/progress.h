// Progress and cancelling, as every long computation sees them.
#pragma once

#include <exception>
#include <string_view>

namespace phasescope::protocol {

// Thrown by Progress::throw_if_cancelled; becomes the error code "cancelled".
struct Cancelled : std::exception {
  const char* what() const noexcept override { return "cancelled"; }
};

// Passed to whatever may take longer than 200 ms. A request's context in the worker is one; tests
// and tools that want neither progress nor cancelling pass NoProgress.
class Progress {
 public:
  virtual ~Progress() = default;
  // fraction in [0, 1], or negative when unknown; text says what is being done. Cheap enough to be
  // called at every step: whoever shows it drops what comes too fast.
  virtual void progress(double fraction, std::string_view text) = 0;
  // May be called from any thread.
  virtual bool cancelled() const = 0;
  void throw_if_cancelled() const {
    if (cancelled()) throw Cancelled();
  }
};

class NoProgress final : public Progress {
 public:
  void progress(double, std::string_view) override {}
  bool cancelled() const override { return false; }
};

// A part of a larger progress: its [0, 1] is [begin, end] of the outer one.
class PartOfProgress final : public Progress {
 public:
  PartOfProgress(Progress& outer, double begin, double end)
      : outer_(outer), begin_(begin), end_(end) {}
  void progress(double fraction, std::string_view text) override {
    outer_.progress(fraction < 0 ? begin_ : begin_ + fraction * (end_ - begin_), text);
  }
  bool cancelled() const override { return outer_.cancelled(); }

 private:
  Progress& outer_;
  double begin_;
  double end_;
};

}  // namespace phasescope::protocol
