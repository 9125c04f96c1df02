// The explicit list of encodings: one line each.
#include "model/encoding.h"
#include "model/encodings/alibi.h"
#include "model/encodings/cape.h"
#include "model/encodings/kerple_log.h"
#include "model/encodings/learned.h"
#include "model/encodings/none.h"
#include "model/encodings/rope.h"
#include "model/encodings/t5.h"
#include "model/encodings/tapa.h"
#include "model/encodings/tape.h"

namespace phasescope::model {

const std::vector<EncodingEntry>& encodings() {
  static const std::vector<EncodingEntry> list = {
      none_entry(), rope_entry(), alibi_entry(), kerple_log_entry(),
      cape_entry(), tape_entry(), tapa_entry(),  learned_entry(),   t5_entry(),
  };
  return list;
}

}  // namespace phasescope::model
