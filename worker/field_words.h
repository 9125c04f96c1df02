// What a refusal calls the fields of a request, whoever asked: the window and the notebook module
// have no options.
#pragma once

#include <string>
#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

// `words` with every option of the command line that stands for one of `fields` written as that
// field's key: "--rows 0:9 would fit" becomes "`rows` 0:9 would fit", and "--text" becomes
// "`input.text`" where the request has an input. The rest of a command that is written out
// ("phasescope prove --make FOLDER") stays as it is.
std::string with_keys_for_options(const std::string& words,
                                  const std::vector<protocol::FieldInfo>& fields);

// The handler whose errors name its fields so; a `where` that is one option is its bare key, as
// where a field's own value is refused. The command line turns keys into its options again.
Handler with_named_fields(Handler handler);

}  // namespace phasescope::worker
