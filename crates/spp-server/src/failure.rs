//! Failures as the host gets to see them.

use jsonrpsee::types::ErrorObjectOwned;
use sandbox_core::Error;
use spp_protocol::error::ErrorObject;

/// The code with which the dispatcher replaces an answer that is too long.
pub(crate) const TOO_LONG: i32 = jsonrpsee::types::error::OVERSIZED_RESPONSE_CODE;

/// An error of the port as an error object.
pub(crate) fn wire(error: &Error) -> ErrorObjectOwned {
    let object = ErrorObject::encode(error);
    ErrorObjectOwned::owned(object.code, object.message, object.data)
}
