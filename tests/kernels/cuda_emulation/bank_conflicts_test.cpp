// Bank conflicts of the CUDA kernels' shared memory, computed from the addresses that their own
// functions give. A warp's access of 4 bytes a lane takes as many turns as the fullest of the 32
// banks has different words of; one of 16 bytes a lane (matrix loads, copies) goes by eight lanes
// at a time, whose 128 bytes fill every bank once at best (CUDA C++ Programming Guide, "Shared
// Memory").

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "kernels/cuda/cape_memory.h"
#include "kernels/cuda/hopper_block.cuh"
#include "kernels/cuda/table_sums.cuh"
#include "kernels/cuda/tile_pair.cuh"

namespace phasescope::kernels::cuda {
namespace {

constexpr int kLanes = 32, kBanks = 32;

/// The byte address of a lane.
using Address = std::function<std::uint32_t(int lane)>;

/// Turns that these words take: the most different ones in a bank.
int turns_of(const std::vector<std::uint32_t>& words) {
  std::array<std::set<std::uint32_t>, kBanks> banks;
  for (const std::uint32_t word : words) banks[word % kBanks].insert(word);
  std::size_t most = 0;
  for (const auto& bank : banks) most = std::max(most, bank.size());
  return static_cast<int>(most);
}

/// Of a warp that reads or writes 4 bytes a lane; lanes for which `active` is false do not.
int degree_of_words(
    const Address& at, const std::function<bool(int)>& active = [](int) { return true; }) {
  std::vector<std::uint32_t> words;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (active(lane)) words.push_back(at(lane) / 4);
  }
  return turns_of(words);
}

/// Of 16 bytes a lane: the worst of its four groups of eight lanes.
int degree_of_chunks(const Address& at) {
  int worst = 0;
  for (int first = 0; first < kLanes; first += 8) {
    std::vector<std::uint32_t> words;
    for (int lane = first; lane < first + 8; ++lane) {
      for (std::uint32_t n = 0; n < 4; ++n) words.push_back(at(lane) / 4 + n);
    }
    worst = std::max(worst, turns_of(words));
  }
  return worst;
}

// What is counted is what is meant.
TEST(BankConflicts, AreCounted) {
  EXPECT_EQ(degree_of_words([](int lane) { return static_cast<std::uint32_t>(lane) * 4; }), 1);
  EXPECT_EQ(degree_of_words([](int) { return 4u; }), 1);  // one word for all
  EXPECT_EQ(degree_of_words([](int lane) { return static_cast<std::uint32_t>(lane) * 8; }), 2);
  EXPECT_EQ(degree_of_words([](int lane) { return static_cast<std::uint32_t>(lane) * 128; }), 32);
  EXPECT_EQ(degree_of_chunks([](int lane) { return static_cast<std::uint32_t>(lane) * 16; }), 1);
  // Rows of 64 channels without a swizzle: every row begins in the first bank.
  EXPECT_EQ(degree_of_chunks([](int lane) { return static_cast<std::uint32_t>(lane) * 128; }), 8);
}

template <int D>
void expect_no_conflicts_in_tiles() {
  SCOPED_TRACE(D);
  for (int first = 0; first < kRows; first += 16) {
    for (int d = 0; d < D / 16; ++d) {
      EXPECT_EQ(degree_of_chunks([=](int lane) { return operand_offset<D>(first, d, lane); }), 1);
      EXPECT_EQ(degree_of_chunks([=](int lane) { return columns_offset<D>(first, d, lane); }), 1);
    }
  }
  // Copies: thread t writes chunk t % (D / 8) of row t / (D / 8); of 192 channels, of each panel of
  // 64.
  constexpr int kPanels = D == 192 ? 3 : 1, kChunks = D / 8 / kPanels;
  for (int panel = 0; panel < kPanels; ++panel) {
    for (int thread = 0; thread < kThreads; thread += kLanes) {
      EXPECT_EQ(degree_of_chunks([=](int lane) {
                  return chunk_offset<D>((thread + lane) / kChunks,
                                         panel * kChunks + (thread + lane) % kChunks);
                }),
                1);
    }
  }
}

TEST(BankConflicts, AreNoneInTiles) {
  expect_no_conflicts_in_tiles<32>();
  expect_no_conflicts_in_tiles<64>();
  expect_no_conflicts_in_tiles<128>();
  expect_no_conflicts_in_tiles<192>();
  expect_no_conflicts_in_tiles<256>();
}

/// A warp writes accumulators into 16 rows of a tile, as operands or before they leave, and reads
/// what leaves by 16 bytes a lane (write_through, TilePair::keep_operands).
template <int D>
void expect_no_conflicts_in_accumulators() {
  SCOPED_TRACE(D);
  constexpr int kChunks = D / 8;
  for (int first = 0; first < kRows; first += 8) {
    for (int d = 0; d < kChunks; ++d) {
      EXPECT_EQ(degree_of_words(
                    [=](int lane) { return accumulator_offset<D>(first + lane / 4, d, lane); }),
                1);
    }
    EXPECT_EQ(degree_of_chunks([=](int lane) {
                return chunk_offset<D>(first + lane / kChunks, lane % kChunks);
              }),
              1);
  }
}

TEST(BankConflicts, AreNoneWhereAccumulatorsBecomeOperands) {
  expect_no_conflicts_in_accumulators<64>();
  expect_no_conflicts_in_accumulators<128>();
  expect_no_conflicts_in_accumulators<256>();
}

/// Of 8 bytes a lane: the worse of its two half warps, whose 128 bytes fill every bank once at
/// best.
int degree_of_pairs(const Address& at) {
  int worst = 0;
  for (int first = 0; first < kLanes; first += 16) {
    std::vector<std::uint32_t> words;
    for (int lane = first; lane < first + 16; ++lane) {
      for (std::uint32_t n = 0; n < 2; ++n) words.push_back(at(lane) / 4 + n);
    }
    worst = std::max(worst, turns_of(words));
  }
  return worst;
}

// A warp's gradients on their way into sums by distance (TableSums): two columns a lane are stored,
// and lanes go down neighbouring diagonals.
TEST(BankConflicts, AreNoneInTableSums) {
  for (int n = 0; n <= 4; ++n) {
    EXPECT_EQ(
        degree_of_pairs([=](int lane) { return staged_offset(lane / 4, 8 * n + lane % 4 * 2); }),
        1);
  }
  for (int row = 0; row < kStagedRows; ++row) {
    for (const int first : {0, 32}) {
      const auto column = [=](int lane) { return lane + row - (kStagedRows - 1) + first; };
      EXPECT_EQ(degree_of_words(
                    [=](int lane) { return staged_offset(row, column(lane)); },
                    [=](int lane) { return column(lane) >= 0 && column(lane) < kStagedPitch; }),
                1);
    }
  }
  // Rows of 32 numbers would put four rows' columns into the same eight banks.
  EXPECT_EQ(degree_of_pairs([](int lane) {
              return static_cast<std::uint32_t>(lane / 4 * 32 + lane % 4 * 2) * 4;
            }),
            4);
}

// A tile's rows follow each other: chunk_offset() is a permutation of its chunks.
TEST(BankConflicts, LeaveEveryChunkAPlace) {
  std::set<std::uint32_t> places;
  for (int row = 0; row < kRows; ++row) {
    for (int chunk = 0; chunk < 16; ++chunk) places.insert(chunk_offset<128>(row, chunk));
  }
  EXPECT_EQ(places.size(), kRows * 16u);
  EXPECT_EQ(*places.rbegin(), static_cast<std::uint32_t>(kTileBytes<128>) - 16);
}

/// Sums over diagonals: thread n walks diagonal n of 127 (TilePair::for_diagonal), in step with the
/// others of its warp.
int worst_degree_of_diagonals(const std::function<std::uint32_t(int row, int column)>& place) {
  int worst = 0;
  for (int warp = 0; warp < kThreads; warp += kLanes) {
    const auto first_row = [warp](int lane) { return std::max(0, warp + lane - (kRows - 1)); };
    for (int step = 0; step < kRows; ++step) {
      const auto active = [=](int lane) {
        const int diagonal = warp + lane;
        return diagonal < 2 * kRows - 1 && first_row(lane) + step < std::min(kRows, diagonal + 1);
      };
      worst = std::max(worst, degree_of_words(
                                  [&](int lane) {
                                    const int row = first_row(lane) + step;
                                    return place(row, row + kRows - 1 - (warp + lane));
                                  },
                                  active));
    }
  }
  return worst;
}

TEST(BankConflicts, AreNoneInSumsOverDiagonals) {
  EXPECT_EQ(worst_degree_of_diagonals([](int row, int column) { return pair_offset(row, column); }),
            1);
  // Rows of 64 numbers would lie in one bank where the diagonals begin in another row each.
  EXPECT_EQ(worst_degree_of_diagonals([](int row, int column) {
              return static_cast<std::uint32_t>(row * kRows + column) * 4;
            }),
            32);
}

// Accumulators: a lane has row lane / 4 and columns 2 (lane % 4) and the next (Chunk).
TEST(BankConflicts, AreTwoWhereAccumulatorsAreStored) {
  for (int warp = 0; warp < 4; ++warp) {
    for (int first = 0; first < kRows; first += 8) {
      for (int e = 0; e < 4; ++e) {
        const auto address = [=](int lane) {
          const Chunk<false> chunk(0, 0, first, warp, lane);
          return pair_offset(chunk.row_of(e), chunk.column_of(0, e));
        };
        EXPECT_EQ(degree_of_words(address), 2);
      }
    }
  }
}

// Top keys: a thread goes along its row.
TEST(BankConflicts, AreNoneAlongRows) {
  for (int column = 0; column < kRows; ++column) {
    EXPECT_EQ(degree_of_words([=](int lane) { return pair_offset(lane, column); }), 1);
  }
}

template <bool kTransposed>
void expect_no_conflicts_in_entries() {
  for (int warp = 0; warp < 4; ++warp) {
    for (int n = 0; n < 8; ++n) {
      for (int e = 0; e < 4; ++e) {
        const auto chunk = [=](int lane) { return Chunk<kTransposed>(0, 0, 0, warp, lane); };
        // Entries of tables, by distance; the log-sum-exp and delta, by query.
        EXPECT_EQ(degree_of_words([&](int lane) {
                    return static_cast<std::uint32_t>(chunk(lane).entry(n, e)) * 4;
                  }),
                  1);
        EXPECT_EQ(degree_of_words([&](int lane) {
                    return static_cast<std::uint32_t>(chunk(lane).query_in_tile(n, e)) * 4;
                  }),
                  1);
      }
    }
  }
}

TEST(BankConflicts, AreNoneInEntriesAndNumbersOfRows) {
  expect_no_conflicts_in_entries<false>();
  expect_no_conflicts_in_entries<true>();
}

// ---- The Hopper form ---------------------------------------------------------------------------

/// The address of a lane's number (k, n) that a product reads at a descriptor (place_of()), a row
/// of 16 bytes each lane: eight of them are the matrix that is read at once.
template <bool kByRows>
Address row_of_product(std::uint32_t tile, std::uint32_t first_k, std::uint32_t first_n) {
  return [=](int lane) {
    const auto row = static_cast<std::uint32_t>(lane % 8);
    return kByRows ? place_of<true>(descriptor(tile), first_k + row, first_n)
                   : place_of<false>(descriptor(tile), first_k, first_n + row);
  };
}

// Boxes arrive by rows of 128 bytes, eight chunks beside each other.
TEST(BankConflicts, AreNoneWhereBoxesArrive) {
  for (int row = 0; row < kRows; ++row) {
    EXPECT_EQ(degree_of_chunks([=](int lane) {
                return swizzled(static_cast<std::uint32_t>(row * 128 + lane % 8 * 16));
              }),
              1);
  }
}

// Products read matrices of 8 x 16 bytes (PTX ISA, "Core matrices"), at the places that the kernels
// name: 16 channels of 64 rows of a panel, or 16 rows of 64 channels.
TEST(BankConflicts, AreNoneWhereProductsReadPanels) {
  for (std::uint32_t panel = 0; panel < 2; ++panel) {
    for (std::uint32_t part = 0; part < 4; ++part) {
      for (std::uint32_t half = 0; half < 16; half += 8) {
        for (std::uint32_t n = 0; n < 64; n += 8) {
          const std::uint32_t tile = panel * kPanelBytes;
          EXPECT_EQ(degree_of_chunks(row_of_product<false>(tile + part * 32, half, n)), 1);
          EXPECT_EQ(degree_of_chunks(row_of_product<true>(tile + part * 16 * 128, half, n)), 1);
        }
      }
    }
  }
  // Eight rows of 128 bytes as they are in memory would lie in the same banks.
  EXPECT_EQ(degree_of_chunks([](int lane) { return static_cast<std::uint32_t>(lane % 8 * 128); }),
            8);
}

// Queries become operands by matrix loads. (Gradients go through a tile of 64 channels as the
// Ampere form's do, results leave through one.)
TEST(BankConflicts, AreNoneWhereQueriesAreLoadedFromPanels) {
  for (int first = 0; first < kRows; first += 16) {
    for (int d = 0; d < 128 / 16; ++d) {
      EXPECT_EQ(degree_of_chunks(
                    [=](int lane) { return panel_offset(first + lane % 16, d * 2 + lane / 16); }),
                1);
    }
  }
}

// What a box wrote of a row is what the kernels' own loads find there.
TEST(BankConflicts, ArePlacesOfTheSameLayout) {
  for (int row = 0; row < kRows; ++row) {
    for (int chunk = 0; chunk < 8; ++chunk) {
      EXPECT_EQ(panel_offset(row, chunk),
                swizzled(static_cast<std::uint32_t>(row * 128 + chunk * 16)));
    }
  }
}

// ---- CAPE --------------------------------------------------------------------------------------

// Its content scores, dq, dk and dv go through tiles as above, its network forward through
// registers alone; the network's gradients through these arrays of floats.

std::uint32_t of_float(std::int64_t place) { return static_cast<std::uint32_t>(place) * 4; }

TEST(BankConflicts, AreNoneInPairsOfCape) {
  for (int tile = 0; tile < 64; tile += 8) {
    // 32 pairs of a row; of their gradients the sums by diagonal, which go down as columns go up.
    EXPECT_EQ(degree_of_words([=](int lane) { return of_float(cape_pair(tile, lane)); }), 1);
    EXPECT_EQ(degree_of_words([=](int lane) { return of_float(cape_diagonal(tile, 63 - lane)); }),
              1);
    for (int c = 0; c < 2; ++c) {
      // Four keys of a group of lanes, of each lane's own head or unit.
      EXPECT_EQ(degree_of_chunks([=](int lane) {
                  return of_float(cape_pair(tile + lane % 4 * 2 + c, lane / 4 * 4));
                }),
                1);
    }
    for (int pair = 0; pair < 32; pair += 4) {
      // Operands of the weights' gradients, and over FIRE a row a thread.
      EXPECT_EQ(degree_of_words([=](int lane) {
                  return of_float(cape_pair(tile + lane / 4, pair + lane % 4));
                }),
                1);
      EXPECT_EQ(degree_of_chunks([=](int lane) { return of_float(cape_pair(tile + lane, pair)); }),
                1);
    }
  }
}

// Of eight heads and every other one of eight units: half of the banks have a number of them.
TEST(BankConflicts, AreTwoInSumsOfCapesWeights) {
  for (int hidden = 1; hidden <= static_cast<int>(kCudaHiddenUnits); ++hidden) {
    const auto units = static_cast<int>(cuda_cape_units(hidden));
    ASSERT_GE(units, hidden);
    for (int unit = 0; unit < units; unit += 8) {
      const auto own = [=](int lane) { return unit + lane % 4 * 2; };
      EXPECT_LE(degree_of_words(
                    [=](int lane) { return of_float(cape_weight(lane / 4, own(lane), units)); },
                    [=](int lane) { return own(lane) < units; }),
                2);
    }
  }
  // Rows of 32 units would begin in the same bank.
  EXPECT_EQ(
      degree_of_words([](int lane) { return of_float(cape_weight(lane / 4, lane % 4 * 2, 32)); }),
      8);
}

// A thread a row, of which most have the same segment: two numbers, so every other bank.
TEST(BankConflicts, AreTwoInSumsOfSegments) {
  for (int segment = 0; segment < kMostSegments; ++segment) {
    EXPECT_EQ(degree_of_words([=](int lane) { return of_float(cape_piece(lane, segment)); }), 2);
  }
}

}  // namespace
}  // namespace phasescope::kernels::cuda
