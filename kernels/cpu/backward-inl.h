// The backward pass of variants whose heads stand alone. Weights are computed again from the saved
// log-sum-exp. A work item is a share (chunk) of the queries of one key/value head and its group;
// it walks 192 queries x 128 keys at a time: p and d s of the block, then dq (lanes are queries),
// dk and dv (lanes are channels). Sums start at 0 for every block and are added to memory once, in
// float32 whatever the tensors have: 16-bit rows are widened where they are packed (queries) and a
// block at a time (keys and values), and gradients rounded where they are written.
//
// Where threads outnumber these items, dk and dv are found by parts of the keys and dq apart from
// them (chunks.h), which computes scores twice. A thread holds dk and dv of its head; where all
// threads' would take too much, keys are gone through in ranges (chunks.h), and dq waits between
// them in its own tensor, in scratch memory or, where that would take too much too, for a pass of
// its own.
//
// Versions that were measured, plain variant: scratch for dk and dv kept from call to call, 0.75 of
// the time at 2048 x 128 (page faults). No difference: ranges of keys, and 16-bit tensors read as
// they are beside copies in float32. The sums of a score tile in registers, which made the forward
// pass 1.7 times as fast, were not measured here by themselves.
#if defined(PHASESCOPE_CPU_BACKWARD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_BACKWARD_INL_H
#undef PHASESCOPE_CPU_BACKWARD_INL_H
#else
#define PHASESCOPE_CPU_BACKWARD_INL_H
#endif

#include "kernels/cpu/backward_block-inl.h"
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/diagonals.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

template <HeadVariant V>
class BackwardPass : private BackwardBlocks<V> {
  using Blocks = BackwardBlocks<V>;
  using Blocks::begin_block;
  using Blocks::blocks_;
  using Blocks::buffer_size;
  using Blocks::chunks_;
  using Blocks::clear_keys;
  using Blocks::gradients_;
  using Blocks::group_;
  using Blocks::ranges_;
  using Blocks::row_floats;
  using Blocks::run_block;
  using Blocks::score_floats;
  using Blocks::score_range_;
  using Blocks::score_sums_;
  using Blocks::shape_;
  using Blocks::sums_scores;
  using Blocks::variant_;
  using Blocks::waiting_floats;
  using typename Blocks::Block;

 public:
  using Blocks::Blocks;

  void run() {
    variant_.begin_gradients(gradients_, shape_.batch * chunks_);
    if (sums_scores()) {
      score_sums_ = DiagonalSums(score_range_, shape_.heads, shape_.batch * chunks_);
    }
    this->find_gradients();
    const std::int64_t heads = shape_.batch * shape_.kv_heads;
    const BackwardParts parts =
        backward_parts(parallel_threads(), shape_, chunks_, 4 * row_floats(), 4 * buffer_size());
    ranges_.threads = std::min<std::int64_t>(parallel_threads(), heads * chunks_);
    ranges_.keys = shape_.keys;
    if (parts.threads > 0) {
      ranges_.threads = parts.threads;
      if (chunks_ == 1) ranges_.keys = parts.keys;
    } else if (chunks_ == 1) {
      ranges_ = backward_ranges(ranges_.threads, shape_.keys, 4 * row_floats(), 4 * buffer_size(),
                                4 * waiting_floats());
    }
    ThreadBuffers buffers(ranges_.threads, buffer_size());
    if (parts.threads > 0) {
      run_parts(heads, parts, buffers);
    } else if (chunks_ == 1) {
      run_heads(heads, buffers);
    } else {
      run_chunks(heads, buffers);
    }
    variant_.finish_gradients(gradients_);
    if (sums_scores()) {
      score_sums_.write_texts(gradients_.scores.by_distance, shape_.batch,
                              gradients_.scores.length);
    }
  }

 private:
  /// An item each.
  void run_heads(std::int64_t heads, ThreadBuffers& buffers) {
    const bool waits = ranges_.keys < shape_.keys && ranges_.keeps_dq;
    const std::int64_t size =
        round_up(ranges_.keys * row_floats() + (waits ? waiting_floats() : 0), kLanes);
    KeptBuffer sums(ranges_.threads * size);
    parallel_items(
        heads,
        [&](std::int64_t head, int thread) {
          run_item(head, 0, sums.data() + thread * size, buffers.of(thread));
        },
        static_cast<int>(ranges_.threads));
  }

  /// Items with sums of their own, which are added up when all are done.
  void run_chunks(std::int64_t heads, ThreadBuffers& buffers) {
    const std::int64_t size = shape_.keys * row_floats();
    KeptBuffer sums(heads * chunks_ * size);
    parallel_items(heads * chunks_, [&](std::int64_t item, int thread) {
      run_item(item / chunks_, item % chunks_, sums.data() + item * size, buffers.of(thread));
    });
    add_chunks(heads, sums.data());
  }

  /// Items of queries, which are the longest, and of keys (chunks.h). Sums over all of a share's
  /// blocks are made where its queries are gone through, in their order.
  void run_parts(std::int64_t heads, const BackwardParts& parts, ThreadBuffers& buffers) {
    const std::int64_t shares = heads * chunks_;
    const std::int64_t size = ranges_.keys * row_floats();  // of a share, or of a thread's part
    KeptBuffer sums((chunks_ == 1 ? ranges_.threads : shares) * size);
    const std::int64_t step = variant_.scratch_size() + score_floats() > 0 ? chunks_ : blocks_;
    const std::int64_t queries = shape_.batch * shape_.heads * step;
    parallel_items(
        queries + shares * parts.count,
        [&](std::int64_t item, int thread) {
          if (item < queries) {
            run_queries(item / step, step - 1 - item % step, step, sums.data(), buffers.of(thread));
            return;
          }
          const std::int64_t part = (item - queries) / shares, share = (item - queries) % shares;
          const KeyRange range{part * parts.keys, std::min((part + 1) * parts.keys, shape_.keys)};
          run_part(share, range, sums.data() + (chunks_ == 1 ? thread : share) * size,
                   buffers.of(thread));
        },
        static_cast<int>(ranges_.threads));
    if (chunks_ > 1) add_chunks(heads, sums.data());
  }

  /// dq of every step-th block of a query head, and what the variant and the scores sum over them.
  void run_queries(std::int64_t row, std::int64_t first, std::int64_t step, float* sums,
                   float* buffer) {
    Block block = begin_block(row / group_, sums, buffer);
    block.wants_queries = block.wants_sums = true;
    block.range = {0, shape_.keys};
    block.head = row % shape_.heads;
    block.variant_head = variant_.head(block.batch, block.head);
    for (std::int64_t b = first; b < blocks_; b += step) {
      block.query = b * kQueryBlock;
      run_block(block, block.batch * chunks_ + b % chunks_);
    }
  }

  /// dk and dv of a part of a share's keys.
  void run_part(std::int64_t share, const KeyRange& range, float* sums, float* buffer) {
    const std::int64_t kv = share / chunks_;
    Block block = begin_block(kv, sums, buffer);
    block.wants_keys = true;
    block.score_sums = nullptr;
    block.range = range;
    block.first_key = chunks_ == 1 ? range.begin : 0;
    clear_keys(block);
    run_range(block, share % chunks_);
    if (chunks_ == 1) write_keys(kv, range, sums);
  }

  /// dk and dv of all keys: the sums of each head's chunks one after the other.
  void add_chunks(std::int64_t heads, float* sums) const {
    const std::int64_t size = shape_.keys * row_floats();
    parallel_items(heads, [&](std::int64_t head, int) {
      float* first = sums + head * chunks_ * size;
      this->add_shares(first, chunks_, size, size);
      write_keys(head, {0, shape_.keys}, first);
    });
  }

  /// kv: head of keys and values, of all entries. sums: of the keys of a range.
  void write_keys(std::int64_t kv, const KeyRange& range, float* sums) const {
    Blocks::write_keys(kv / shape_.kv_heads, kv % shape_.kv_heads, range,
                       this->key_sums(sums, ranges_.keys));
  }

  void run_item(std::int64_t kv, std::int64_t chunk, float* sums, float* buffer) {
    Block block = begin_block(kv, sums, buffer);
    block.wants_queries = ranges_.keeps_dq;
    block.wants_keys = block.wants_sums = true;
    do {
      block.range = {block.range.end, std::min(block.range.end + ranges_.keys, shape_.keys)};
      block.first_key = block.range.begin;
      clear_keys(block);
      run_range(block, chunk);
      if (chunks_ == 1) write_keys(kv, block.range, sums);
    } while (block.range.end < shape_.keys);
    if (ranges_.keeps_dq) return;
    block.wants_queries = true;
    block.wants_keys = block.wants_sums = false;
    block.range = {0, shape_.keys};
    run_range(block, chunk);
  }

  /// All queries of an item against the keys of a range.
  void run_range(Block& block, std::int64_t chunk) {
    for (std::int64_t g = 0; g < group_; ++g) {
      block.head = block.kv_head * group_ + g;
      block.variant_head = variant_.head(block.batch, block.head);
      if (!block.wants_sums) variant_.keep_from_writing(block.variant_head);
      for (std::int64_t b = chunk; b < blocks_; b += chunks_) {
        block.query = b * kQueryBlock;
        run_block(block, block.batch * chunks_ + chunk);
      }
    }
  }
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
