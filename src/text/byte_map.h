// The GPT-2 byte map: in vocab.json every byte is written as one printable character. Not for text that users see.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace minicpm {

// The character that stands for a byte: itself for 33..126, 161..172, 174..255, else 256 + the how-manieth it is.
char32_t ByteToChar(uint8_t byte);

// The bytes that a vocabulary entry stands for; an entry with a character outside the map stands for its own UTF-8.
// Requires: valid UTF-8.
std::string EntryToBytes(std::string_view entry);

}  // namespace minicpm
