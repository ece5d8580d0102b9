// Implementation of bench_report.h.
#include "bench_report.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

namespace minicpm::cli {
namespace {

using Json = nlohmann::ordered_json;

// Six significant digits: more than any clock here is worth.
double Rounded(double x) {
  if (!std::isfinite(x)) return 0;
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.6g", x);
  return std::strtod(buffer, nullptr);
}

// Medians under their names, and the extremes of each under "min" and "max".
Json Figures(std::initializer_list<std::pair<const char*, Figure>> figures) {
  Json json;
  Json min;
  Json max;
  for (const auto& [name, figure] : figures) {
    json[name] = Rounded(figure.median);
    min[name] = Rounded(figure.min);
    max[name] = Rounded(figure.max);
  }
  json["min"] = std::move(min);
  json["max"] = std::move(max);
  return json;
}

Json OrNull(double value) { return value < 0 ? Json(nullptr) : Json(Rounded(value)); }

__attribute__((format(printf, 1, 2))) std::string Text(const char* format, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

std::string Share(const Figure& share, const std::string& of) {
  return Text("%5.2f (%.2f to %.2f) of %s", share.median, share.min, share.max, of.c_str());
}

const char* NameOfLimit(const std::string& key) {
  return key == "int8_gop_s" ? "the int8 limit" : key == "int4_gop_s" ? "the int4 limit" : "the f32 limit";
}

}  // namespace

std::string BenchReportJson(const ModelBenchReport& r, const ModelBenchOptions& o) {
  Json json;
  json["machine"] = Figures({{"read_gb_s", r.machine.read_gb_s},
                             {"f32_gflop_s", r.machine.f32_gflop_s},
                             {"int8_gop_s", r.machine.int8_gop_s},
                             {"int4_gop_s", r.machine.int4_gop_s}});
  json["load_ms"] = Rounded(r.load_ms.median);
  json["load_ms_min"] = Rounded(r.load_ms.min);
  json["load_ms_max"] = Rounded(r.load_ms.max);
  json["load_cold_ms"] = OrNull(r.load_cold_ms);
  json["first_token_ms"] = Rounded(r.first_token_ms.median);
  json["first_token_ms_min"] = Rounded(r.first_token_ms.min);
  json["first_token_ms_max"] = Rounded(r.first_token_ms.max);
  json["first_token_cold_ms"] = OrNull(r.first_token_cold_ms);
  Json& slice = json["image_slice"] =
      Figures({{"ms", r.image_slice.ms}, {"gop_s", r.image_slice.gop_s}, {"share", r.image_slice.share}});
  slice["gop"] = Rounded(r.image_slice.gop);
  slice["limit"] = r.image_slice.limit;
  Json& prefill = json["prefill"] =
      Figures({{"tok_s", r.prefill.tok_s}, {"gop_s", r.prefill.gop_s}, {"share", r.prefill.share}});
  prefill["tokens"] = o.prompt;
  prefill["limit"] = r.prefill.limit;
  Json& decode = json["decode"] =
      Figures({{"tok_s", r.decode.tok_s}, {"gb_s", r.decode.gb_s}, {"share", r.decode.share}});
  decode["tokens"] = o.generate;
  decode["depth"] = o.depth;
  decode["bytes_per_token"] = r.decode.bytes_per_token;
  json["decode_batch"] = Json::array();
  for (const auto& batch : r.decode_batch) {
    Json entry{{"n", batch.n}};
    entry.update(Figures({{"tok_s", batch.tok_s}}));
    json["decode_batch"].push_back(std::move(entry));
  }
  json["peak_rss_mb"] = Rounded(r.peak_rss_mb);
  json["kv_mb"] = Rounded(r.kv_mb);
  json["bundle_bytes"] = r.bundle_bytes;
  json["model"] = {{"family", r.family},
                   {"vision_dtype", r.vision_dtype},
                   {"language_dtype", r.language_dtype},
                   {"head_dtype", r.head_dtype},
                   {"engine", "native"},
                   {"isa", r.isa},
                   {"threads", r.n_threads}};
  json["context"] = o.context;
  json["repeat"] = o.repeat;
  json["quick"] = o.quick;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string BenchReportTable(const ModelBenchReport& r, const ModelBenchOptions& o) {
  std::string out;
  out += Text("model        %s, %s, %d threads; weights: vision %s, language %s, head %s\n", r.family.c_str(),
              r.isa.c_str(), r.n_threads, r.vision_dtype.c_str(), r.language_dtype.c_str(), r.head_dtype.c_str());
  out += Text("machine      read %.1f GB/s, f32 %.0f GFLOP/s, int8 %.0f GOP/s, int4 %.0f GOP/s\n",
              r.machine.read_gb_s.median, r.machine.f32_gflop_s.median, r.machine.int8_gop_s.median,
              r.machine.int4_gop_s.median);
  out += Text("load         %.0f ms", r.load_ms.median);
  if (r.load_cold_ms >= 0) out += Text(" (from the disk %.0f ms)", r.load_cold_ms);
  out += Text("; to the first token %.0f ms", r.first_token_ms.median);
  if (r.first_token_cold_ms >= 0) out += Text(" (from the disk %.0f ms)", r.first_token_cold_ms);
  out += Text("\nimage slice  %.0f ms, %.0f GOP/s, %s\n", r.image_slice.ms.median, r.image_slice.gop_s.median,
              Share(r.image_slice.share, NameOfLimit(r.image_slice.limit)).c_str());
  out +=
      Text("prefill %-4lld %.1f tokens/s, %.0f GOP/s, %s\n", static_cast<long long>(o.prompt), r.prefill.tok_s.median,
           r.prefill.gop_s.median, Share(r.prefill.share, NameOfLimit(r.prefill.limit)).c_str());
  out += Text("decode       %.2f tokens/s, %.1f GB/s, %s\n", r.decode.tok_s.median, r.decode.gb_s.median,
              Share(r.decode.share, "the streaming read").c_str());
  for (const auto& batch : r.decode_batch) {
    if (batch.n == 1) continue;
    out += Text("decode %dx    %.2f tokens/s together, %.2f times one alone\n", batch.n, batch.tok_s.median,
                r.decode.tok_s.median > 0 ? batch.tok_s.median / r.decode.tok_s.median : 0.0);
  }
  out += Text("memory       peak %.0f MB with one picture and %lld tokens; keys and values of %lld positions %.0f MB\n",
              r.peak_rss_mb, static_cast<long long>(o.prompt), static_cast<long long>(o.context), r.kv_mb);
  out += Text("files        %.2f GB\n", static_cast<double>(r.bundle_bytes) / 1e9);
  if (o.quick) out += "limits were measured quickly (--quick): shares are not for quoting\n";
  return out;
}

}  // namespace minicpm::cli
