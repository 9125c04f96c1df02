// Lets libFuzzer start from a target's own seeds now and then: mutations alone would not find them.

#include <cstring>

#include "tests/fuzz/fuzz.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t longest);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t longest, unsigned int number) {
  if (size < 2 || number % 64 == 0) {
    std::mt19937 random(number);
    const std::string seed = phasescope::fuzz::seed(random);
    if (seed.size() <= longest) {
      std::memcpy(data, seed.data(), seed.size());
      return seed.size();
    }
  }
  return LLVMFuzzerMutate(data, size, longest);
}
