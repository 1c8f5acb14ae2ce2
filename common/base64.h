// Base64 without padding (RFC 4648), in the alphabet of mail and Kubernetes or of URLs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace launch {

inline constexpr std::string_view kPlainAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
inline constexpr std::string_view kUrlAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string ToBase64(std::string_view bytes, std::string_view alphabet);

// Absent for any other spelling than that of ToBase64.
std::optional<std::string> FromBase64(std::string_view text, std::string_view alphabet);

}  // namespace launch
