// bench.step: what a step of a training takes, beside other encodings and a plain loop.
#pragma once

#include "protocol/messages/bench.h"
#include "protocol/reply.h"
#include "worker/handlers.h"

namespace phasescope::worker {

// A row for each configuration and length, in this order: all lengths of the first, of the second,
// and so on. Trains on random bytes, or samples of the configuration's task; nothing is kept. On
// the device of each configuration, or the one that is asked for.
protocol::Reply bench_step(const protocol::StepBenchRequest& request, RequestContext& context);

}  // namespace phasescope::worker
