// Fuzzes the safetensors reader: any bytes as a file, or any JSON as the header of a file whose lengths are right.
// Input: the first byte chooses; in the second form the next two bytes are the length of the data. Not for speed.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "base/status.h"
#include "store/safetensors.h"

namespace {

// Stops the program, so that the fuzzer reports the input.
void Require(bool promise) {
  if (!promise) __builtin_trap();
}

// Parses an exact heap copy, so that the address sanitizer sees any step outside, and checks what was promised.
void ParseAndTouch(const std::string& content) {
  const std::unique_ptr<std::byte[]> bytes(new std::byte[content.size() + (content.empty() ? 1 : 0)]);
  std::memcpy(bytes.get(), content.data(), content.size());
  const auto file = minicpm::SafetensorsFile::Parse({bytes.get(), content.size()}, "fuzz");
  if (!file.has_value()) {
    Require(file.error().message.starts_with("fuzz"));
    Require(minicpm::Printable(file.error().message, 1 << 20) == file.error().message);
    return;
  }
  const std::byte* expected = nullptr;
  volatile unsigned sum = 0;
  for (const auto& entry : file->entries()) {
    const auto* data = static_cast<const std::byte*>(entry.view.data);
    const size_t n = entry.view.bytes();
    Require(reinterpret_cast<uintptr_t>(data) % minicpm::SizeOf(entry.view.dtype) == 0);
    Require(expected == nullptr || data == expected);
    if (n > 0) sum = sum + static_cast<unsigned>(data[0]) + static_cast<unsigned>(data[n - 1]);
    expected = data + n;
  }
  Require(expected == nullptr || expected == bytes.get() + content.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  if (size < 3) return 0;
  const std::string_view text(reinterpret_cast<const char*>(input), size);
  if (input[0] % 2 == 0) {
    ParseAndTouch(std::string(text.substr(1)));
    return 0;
  }
  const size_t data_bytes = input[1] + 256u * input[2];
  std::string header(text.substr(3));
  header.append((8 - header.size() % 8) % 8, ' ');
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), 8);
  ParseAndTouch(file + header + std::string(data_bytes, 'd'));
  return 0;
}
