// The explicit list of encodings: one line each.
#include "model/encoding.h"
#include "model/encodings/alibi.h"
#include "model/encodings/ape_grid.h"
#include "model/encodings/ape_periodic.h"
#include "model/encodings/ape_sequence.h"
#include "model/encodings/ape_tree.h"
#include "model/encodings/cape.h"
#include "model/encodings/cope.h"
#include "model/encodings/fire.h"
#include "model/encodings/fope.h"
#include "model/encodings/formula.h"
#include "model/encodings/fox.h"
#include "model/encodings/imported.h"
#include "model/encodings/kerple_log.h"
#include "model/encodings/kerple_power.h"
#include "model/encodings/learned.h"
#include "model/encodings/liere.h"
#include "model/encodings/none.h"
#include "model/encodings/path.h"
#include "model/encodings/pope.h"
#include "model/encodings/randomized_rope.h"
#include "model/encodings/relative_logits.h"
#include "model/encodings/repo.h"
#include "model/encodings/rope.h"
#include "model/encodings/rope_nope.h"
#include "model/encodings/selective_rope.h"
#include "model/encodings/shaw.h"
#include "model/encodings/sinusoidal.h"
#include "model/encodings/sinusoidal_2d.h"
#include "model/encodings/stick_breaking.h"
#include "model/encodings/t5.h"
#include "model/encodings/tapa.h"
#include "model/encodings/tape.h"
#include "model/encodings/tape_circuit.h"
#include "model/encodings/transformer_xl.h"
#include "model/encodings/xpos.h"

namespace phasescope::model {

const std::vector<EncodingEntry>& encodings() {
  static const std::vector<EncodingEntry> list = {
      none_entry(),          sinusoidal_entry(),
      sinusoidal_2d_entry(), learned_entry(),
      rope_entry(),          rope_nope_entry(),
      xpos_entry(),          randomized_rope_entry(),
      fope_entry(),          pope_entry(),
      repo_entry(),          selective_rope_entry(),
      shaw_entry(),          transformer_xl_entry(),
      alibi_entry(),         kerple_log_entry(),
      kerple_power_entry(),  t5_entry(),
      fire_entry(),          cape_entry(),
      cope_entry(),          relative_logits_entry(),
      fox_entry(),           stick_breaking_entry(),
      path_entry(),          tape_entry(),
      tapa_entry(),          ape_sequence_entry(),
      ape_grid_entry(),      ape_tree_entry(),
      ape_periodic_entry(),  liere_entry(),
      formula_entry(),       imported_entry(),
      tape_circuit_entry(),
  };
  return list;
}

}  // namespace phasescope::model
