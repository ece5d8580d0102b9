// Tokenizer files for synthetic models: of the real size and form, with every token that the family's prompts need, but
// invented merges. Not for reading tokenizers (src/text).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "models/blocks/model_config.h"

namespace minicpm {

// Pairs of file name and content: vocab.json, merges.txt, added_tokens.json, tokenizer_config.json and, for the family
// that ships one, tokenizer.json. Ids run from 0 to n_vocab - 1 without gaps; the added tokens come last, in the
// official order. Errors: kInvalidArgument when n_vocab has no room for bytes and added tokens.
Result<std::vector<std::pair<std::string, std::string>>> SyntheticTokenizerFiles(Family family, int64_t n_vocab,
                                                                                 uint64_t seed);

// The id of an added token such as "<|im_end|>" in those files; -1 when there is none.
int64_t SyntheticTokenId(Family family, int64_t n_vocab, const std::string& text);

}  // namespace minicpm
