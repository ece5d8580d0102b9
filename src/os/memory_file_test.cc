// Tests of memory_file.h. Not for files on disk.
#include "os/memory_file.h"

#include <string>

#include "gtest/gtest.h"
#include "os/mapped_file.h"

namespace minicpm {
namespace {

TEST(MemoryFile, ReadsBackThroughItsPathAndMoves) {
  const std::string text(100'000, 'x');
  auto file = MemoryFile::Create(std::as_bytes(std::span(text)));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  MemoryFile moved = std::move(*file);
  const auto read = ReadWholeFile(moved.path(), 1 << 20);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, text);
}

TEST(MemoryFile, IsGoneWithTheObject) {
  std::string path;
  {
    auto file = MemoryFile::Create({});
    ASSERT_TRUE(file.has_value());
    path = file->path();
  }
  EXPECT_FALSE(ReadWholeFile(path, 1 << 20).has_value());
}

}  // namespace
}  // namespace minicpm
