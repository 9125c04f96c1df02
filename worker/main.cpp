// phasescope-worker: serves requests on its standard input and output, or runs a job.

#include <ATen/Parallel.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention.h"
#include "model/attention/cuda_attention.h"
#include "training/jobs/job.h"
#include "training/jobs/stop_signal.h"
#include "worker/devices.h"
#include "worker/handlers.h"
#include "worker/model_cache.h"
#include "worker/server.h"
#include "worker/stdio_guard.h"

namespace {

using namespace phasescope;

constexpr int bad_usage_status = 2;

constexpr const char* usage =
    "phasescope-worker [--device cpu|cuda[:i]] [--threads N]   serve phasescope on stdin and "
    "stdout\n"
    "phasescope-worker --job DIR                               run the job in a folder\n"
    "phasescope-worker --job-rank DIR                          the same as one of several "
    "processes\n"
    "phasescope-worker --version | --help\n";

struct Arguments {
  worker::WorkerSettings settings;
  std::optional<std::string> job, job_rank;
  bool help = false;
  bool version = false;
  std::string fault;  // what cannot be understood
};

std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

void take_option(Arguments& arguments, const std::string& name, const std::string& value) {
  if (name == "--device") {
    arguments.settings.device = value;
  } else if (name == "--threads") {
    const auto number = number_of(value);
    if (!number) arguments.fault = "--threads wants a number, not '" + value + "'";
    arguments.settings.threads = number.value_or(0);
  } else if (name == training::kJobArgument || name == "job") {
    arguments.job = value;
  } else if (name == training::kRankArgument) {
    arguments.job_rank = value;
  } else {
    arguments.fault = "unknown option '" + name + "'";
  }
}

Arguments read_arguments(const std::vector<std::string>& words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size() && arguments.fault.empty(); ++i) {
    const std::string& word = words[i];
    if (word == "--help") {
      arguments.help = true;
    } else if (word == "--version") {
      arguments.version = true;
    } else if (const auto equals = word.find('='); equals != std::string::npos) {
      take_option(arguments, word.substr(0, equals), word.substr(equals + 1));
    } else if (i + 1 < words.size()) {
      take_option(arguments, word, words[++i]);
    } else {
      arguments.fault = "'" + word + "' needs a value, or is no option";
    }
  }
  return arguments;
}

// Tensors of a long text are blocks of some megabytes of many sizes. What glibc has freed once it
// keeps for later ones, up to 32 MB each, and where none fits the process grows: at 32,768 tokens a
// comparison took 2.0 GB, with this 1.2. Smaller blocks come too often to be mapped each time; what
// is kept for them is as large as the layers of a middling model ask for, as a threshold that is
// set stops the others from growing, and at their first 128 KB a fifth of a pass goes to page
// faults.
void give_large_blocks_back() {
  constexpr int bytes = 8 << 20, kept = 64 << 20;
  ::mallopt(M_MMAP_THRESHOLD, bytes);
  ::mallopt(M_TRIM_THRESHOLD, kept);
  ::mallopt(M_TOP_PAD, kept);
}

int serve(const worker::WorkerSettings& settings, worker::FrameFds fds) {
  give_large_blocks_back();
  worker::ModelCache models(settings);
  worker::ServerOptions options;
  options.handlers = worker::all_handlers();
  options.settings = settings;
  options.facts = worker::worker_facts(settings, PHASESCOPE_VERSION);
#ifdef PHASESCOPE_CUDA_KERNELS
  options.facts["cuda_kernels"] = "compiled in";
#endif
  options.models = &models;
  options.translators = {worker::translate_torch};
  options.version = PHASESCOPE_VERSION;
  auto channel = std::make_unique<protocol::Channel>(std::move(fds.in), std::move(fds.out), true);
  const int status = worker::serve(std::move(channel), std::move(options));
  // A computation that did not stop may still run, and libraries take long to tidy up.
  std::fflush(nullptr);
  ::_exit(status);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = read_arguments({argv + 1, argv + argc});
  if (!arguments.fault.empty()) {
    std::fprintf(stderr, "phasescope-worker: %s\n%s", arguments.fault.c_str(), usage);
    return bad_usage_status;
  }
  if (arguments.help || arguments.version) {
    std::fputs(arguments.help ? usage : "phasescope-worker " PHASESCOPE_VERSION "\n", stdout);
    return 0;
  }
  ::signal(SIGPIPE, SIG_IGN);
  // A checkpoint above a limit of the shell or the cluster is one that could not be saved.
  ::signal(SIGXFSZ, SIG_IGN);
#ifdef PHASESCOPE_CUDA_KERNELS
  model::use_cuda_kernels(&kernels::cuda_kernels());
#endif
  try {
    kernels::attention_target();
  } catch (const std::invalid_argument& error) {  // PHASESCOPE_SIMD names nothing that is here
    std::fprintf(stderr, "phasescope-worker: %s\n", error.what());
    return bad_usage_status;
  }
  if (arguments.settings.threads > 0) at::set_num_threads(arguments.settings.threads);
  if (arguments.job || arguments.job_rank) {
    training::heed_stop_signals();
    return arguments.job ? training::run_job(*arguments.job)
                         : training::run_job_as_rank(*arguments.job_rank);
  }
  if (::isatty(0)) {
    std::fprintf(stderr, "phasescope-worker speaks to phasescope, not to a terminal\n%s", usage);
    return bad_usage_status;
  }
  return serve(arguments.settings, worker::take_standard_streams());
}
