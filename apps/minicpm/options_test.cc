// Command lines: what is accepted, what is refused and with which sentence, and what the options become.
#include "options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "arguments.h"
#include "command.h"

namespace minicpm::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  std::optional<int> code;
  std::string out;
  std::string err;
  GenerationFlags flags;
};

Parsed Parse(const std::vector<std::string>& arguments) {
  CLI::App app("For the test.", "minicpm test");
  Parsed parsed;
  AddGenerationOptions(app, parsed.flags);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  parsed.code = ParseArguments(app, arguments);
  parsed.out = ::testing::internal::GetCapturedStdout();
  parsed.err = ::testing::internal::GetCapturedStderr();
  return parsed;
}

void ExpectRefused(const std::vector<std::string>& arguments, const std::string& sentence) {
  const Parsed parsed = Parse(arguments);
  EXPECT_EQ(parsed.code, kExitUsage) << arguments[0];
  EXPECT_EQ(parsed.out, "");
  EXPECT_EQ(parsed.err, "minicpm: " + sentence + " (`minicpm test --help` explains the options)\n");
}

const SamplingOptions kDefaults{.temperature = 0.7f, .top_k = 100, .top_p = 0.8f, .repetition_penalty = 1.03f};

TEST(Options, DefaultsAreTheContract) {
  const Parsed parsed = Parse({});
  EXPECT_FALSE(parsed.code.has_value()) << parsed.err;
  const GenerationOptions g = ResolveGeneration(parsed.flags, kDefaults, 5);
  EXPECT_EQ(g.max_new_tokens, 2048);
  EXPECT_EQ(g.sampling.temperature, 0.7f);
  EXPECT_EQ(g.sampling.top_k, 100);
  EXPECT_EQ(g.sampling.top_p, 0.8f);
  EXPECT_EQ(g.sampling.min_p, 0.0f);
  EXPECT_EQ(g.sampling.repetition_penalty, 1.03f);
  EXPECT_EQ(g.sampling.seed, 5u);
  EXPECT_TRUE(g.stop.empty());
  EXPECT_EQ(ResolvePrompt(parsed.flags).thinking, Thinking::kOff);
  EXPECT_FALSE(ResolvePrompt(parsed.flags).max_slices.has_value());
  const BackendOptions b = ResolveBackend(parsed.flags);
  EXPECT_EQ(b.n_threads, 0);
  EXPECT_EQ(b.context, 0);
  EXPECT_EQ(b.kv_dtype, DType::kF16);
  EXPECT_EQ(b.isa, "");
  EXPECT_FALSE(b.pin);
}

TEST(Options, EveryOptionArrives) {
  const Parsed parsed = Parse({"--max-new-tokens",
                               "7",
                               "--temperature=0.25",
                               "--top-k",
                               "3",
                               "--top-p",
                               "0.5",
                               "--min-p",
                               "0.125",
                               "--repetition-penalty",
                               "1.5",
                               "--seed",
                               "9007199254740991",
                               "--stop",
                               "-x",
                               "--stop",
                               "[a,b]",
                               "--thinking",
                               "on",
                               "--max-slices",
                               "4",
                               "--context",
                               "4096",
                               "--kv",
                               "f32",
                               "--lookup",
                               "on",
                               "--lookup-tokens",
                               "7",
                               "--threads",
                               "2",
                               "--pin",
                               "--isa",
                               "scalar",
                               "--system",
                               "--be brief"});
  ASSERT_FALSE(parsed.code.has_value()) << parsed.err;
  const GenerationOptions g = ResolveGeneration(parsed.flags, kDefaults, ChooseSeed(parsed.flags));
  EXPECT_EQ(g.max_new_tokens, 7);
  EXPECT_EQ(g.sampling.temperature, 0.25f);
  EXPECT_EQ(g.sampling.top_k, 3);
  EXPECT_EQ(g.sampling.top_p, 0.5f);
  EXPECT_EQ(g.sampling.min_p, 0.125f);
  EXPECT_EQ(g.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(g.sampling.seed, 9007199254740991u);
  EXPECT_THAT(g.stop, ElementsAre("-x", "[a,b]"));
  EXPECT_EQ(g.lookup, Lookup::kOn);
  EXPECT_EQ(g.lookup_tokens, 7);
  EXPECT_EQ(ResolvePrompt(parsed.flags).thinking, Thinking::kOn);
  EXPECT_EQ(ResolvePrompt(parsed.flags).max_slices, 4);
  EXPECT_EQ(parsed.flags.system, "--be brief");
  const BackendOptions b = ResolveBackend(parsed.flags);
  EXPECT_EQ(b.n_threads, 2);
  EXPECT_EQ(b.context, 4096);
  EXPECT_EQ(b.kv_dtype, DType::kF32);
  EXPECT_EQ(b.isa, "scalar");
  EXPECT_TRUE(b.pin);
}

TEST(Options, CacheFormats) {
  EXPECT_EQ(ResolveBackend(Parse({"--kv", "f32"}).flags).kv_dtype, DType::kF32);
  EXPECT_EQ(ResolveBackend(Parse({"--kv", "f16"}).flags).kv_dtype, DType::kF16);
  EXPECT_EQ(ResolveBackend(Parse({"--kv", "int8"}).flags).kv_dtype, DType::kI8);
}

TEST(Options, TheLastOfSeveralWins) {
  const Parsed parsed = Parse({"--top-k", "1", "--top-k", "2", "--thinking", "on", "--thinking", "auto"});
  ASSERT_FALSE(parsed.code.has_value()) << parsed.err;
  EXPECT_EQ(parsed.flags.top_k, 2);
  EXPECT_EQ(ResolvePrompt(parsed.flags).thinking, Thinking::kAuto);
}

TEST(Options, GreedyMeansNoPenaltyUnlessAskedFor) {
  EXPECT_EQ(ResolveSampling(Parse({"--temperature", "0"}).flags, kDefaults, 0).repetition_penalty, 1.0f);
  EXPECT_EQ(ResolveSampling(Parse({"--temperature", "0.1"}).flags, kDefaults, 0).repetition_penalty, 1.03f);
  const Parsed both = Parse({"--temperature", "0", "--repetition-penalty", "1.2"});
  EXPECT_EQ(ResolveSampling(both.flags, kDefaults, 0).repetition_penalty, 1.2f);
}

TEST(Options, SeedsAreFreshWhenNotGiven) {
  const GenerationFlags none;
  const uint64_t first = ChooseSeed(none);
  bool differs = false;
  for (int i = 0; i < 8; ++i) differs = differs || ChooseSeed(none) != first;
  EXPECT_TRUE(differs);
  EXPECT_LE(first, 0xffffffffu);
}

TEST(Options, MistakesAreOneSentence) {
  ExpectRefused({"--top-k", "abc"}, "--top-k: expected a whole number from 0 to 1073741824, found \"abc\"");
  ExpectRefused({"--top-k", "1.5"}, "--top-k: expected a whole number from 0 to 1073741824, found \"1.5\"");
  ExpectRefused({"--top-k", "-1"}, "--top-k: expected a whole number from 0 to 1073741824, found \"-1\"");
  ExpectRefused({"--max-new-tokens", "0"}, "--max-new-tokens: expected a whole number from 1 to 16777216, found \"0\"");
  ExpectRefused({"--max-new-tokens", ""}, "--max-new-tokens: expected a whole number from 1 to 16777216, found \"\"");
  ExpectRefused({"--max-slices", "257"}, "--max-slices: expected a whole number from 1 to 256, found \"257\"");
  ExpectRefused({"--seed", "99999999999999999999"},
                "--seed: expected a whole number from 0 to 9007199254740991, found \"99999999999999999999\"");
  ExpectRefused({"--temperature", "nan"}, "--temperature: expected a number from 0 to 100, found \"nan\"");
  ExpectRefused({"--temperature", "0,7"}, "--temperature: expected a number from 0 to 100, found \"0,7\"");
  ExpectRefused({"--top-p", "1.01"}, "--top-p: expected a number from 0 to 1, found \"1.01\"");
  ExpectRefused({"--thinking", "maybe"}, "--thinking: expected on, off or auto, found \"maybe\"");
  ExpectRefused({"--isa", "sse9"},
                "--isa: expected scalar, avx2, avx_vnni, avx512_vnni or neon_dotprod, found \"sse9\"");
  ExpectRefused({"--temperatur", "1"}, "unknown option --temperatur");
  ExpectRefused({"extra"}, "unexpected argument extra");
  ExpectRefused({"--stop"}, "--stop needs a value");
  ExpectRefused({"--threads"}, "--threads needs a value");
}

TEST(Options, WhatThisVersionDoesNotHaveIsSaid) {
  const auto check = [](const std::vector<std::string>& arguments) {
    const Status status = CheckGenerationFlags(Parse(arguments).flags);
    return status.has_value() ? std::string() : status.error().message;
  };
  EXPECT_EQ(check({}), "");
  EXPECT_EQ(check({"--kv", "int8"}), "");
  EXPECT_EQ(check({"--engine", "openvino"}), "--engine: openvino is not in this version, expected native");
  EXPECT_EQ(check({"--engine", "native", "--kv", "f16"}), "");
  EXPECT_EQ(check({"--stop", ""}), "--stop: expected a text, found an empty one");
}

TEST(Options, HelpNamesEveryOptionAndGoesToStdout) {
  const Parsed parsed = Parse({"--help"});
  EXPECT_EQ(parsed.code, kExitDone);
  EXPECT_EQ(parsed.err, "");
  for (const char* option : {"--max-new-tokens",
                             "--temperature",
                             "--top-k",
                             "--top-p",
                             "--min-p",
                             "--repetition-penalty",
                             "--seed",
                             "--stop",
                             "--system",
                             "--thinking",
                             "--max-slices",
                             "--context",
                             "--kv",
                             "--lookup",
                             "--lookup-tokens",
                             "--threads",
                             "--pin",
                             "--isa",
                             "--engine",
                             "--quiet"}) {
    EXPECT_THAT(parsed.out, HasSubstr(option));
  }
  EXPECT_THAT(parsed.out, HasSubstr("no repetition penalty unless you give one"));
}

TEST(Numbers, AreReadStrictly) {
  EXPECT_EQ(ParseInteger("12", 0, 100), 12);
  EXPECT_EQ(ParseInteger("-3", -5, 100), -3);
  for (const char* text : {"", " 1", "1 ", "+1", "0x10", "1e3", "1.0", "101", "９", "1\n"}) {
    EXPECT_FALSE(ParseInteger(text, 0, 100).has_value()) << text;
  }
  EXPECT_EQ(ParseNumber("1e-3", 0, 1), 1e-3);
  EXPECT_EQ(ParseNumber(".5", 0, 1), 0.5);
  for (const char* text : {"", " 1", "inf", "-0.1", "1.0001", "0.5x", "1e999"}) {
    EXPECT_FALSE(ParseNumber(text, 0, 1).has_value()) << text;
  }
}

}  // namespace
}  // namespace minicpm::cli
