//! libFuzzer on `spp_fuzz::line_codec`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spp_fuzz::line_codec(data));
