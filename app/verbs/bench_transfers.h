#pragma once
// What carries bytes (frames, files of tensors), beside the system's own calls on the same bytes.
// Runs are interleaved, so that what drifts on a shared machine drifts for both.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "protocol/messages/bench.h"

namespace phasescope::app {

// Times two things that carry `bytes`: the medians, least and largest of GB/s over `runs` of each,
// one after the other, after one of each that is not counted.
protocol::BenchRow transfer_row(const std::string& name, const std::string& rival,
                                std::int64_t bytes, std::int64_t runs,
                                const std::function<void()>& ours,
                                const std::function<void()>& theirs);

// A frame with one tensor of `bytes` to another thread: through pipes, as over ssh, and as a memory
// file, as to a worker of this machine; the rival writes and reads the bytes on a pipe.
std::vector<protocol::BenchRow> frame_rows(std::int64_t bytes, std::int64_t runs);

// A safetensors file of `bytes`, made in the folder for temporary files and removed again, opened
// and read to its end: from the disk, and from the system's cache; the rival calls read(2) for the
// same file. Without rows where there is no room for twice the file.
std::vector<protocol::BenchRow> file_rows(std::int64_t bytes, std::int64_t runs);

}  // namespace phasescope::app
