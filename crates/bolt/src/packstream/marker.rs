//! The first byte of every value.

pub(super) const NULL: u8 = 0xC0;
pub(super) const FLOAT: u8 = 0xC1;
pub(super) const FALSE: u8 = 0xC2;
pub(super) const TRUE: u8 = 0xC3;
pub(super) const INT_8: u8 = 0xC8;
pub(super) const INT_16: u8 = 0xC9;
pub(super) const INT_32: u8 = 0xCA;
pub(super) const INT_64: u8 = 0xCB;
pub(super) const BYTES_8: u8 = 0xCC;
pub(super) const BYTES_16: u8 = 0xCD;
pub(super) const BYTES_32: u8 = 0xCE;
pub(super) const STRING_8: u8 = 0xD0;
pub(super) const STRING_16: u8 = 0xD1;
pub(super) const STRING_32: u8 = 0xD2;
pub(super) const LIST_8: u8 = 0xD4;
pub(super) const LIST_16: u8 = 0xD5;
pub(super) const LIST_32: u8 = 0xD6;
pub(super) const DICT_8: u8 = 0xD8;
pub(super) const DICT_16: u8 = 0xD9;
pub(super) const DICT_32: u8 = 0xDA;
/// Only in version 1, and needed by no structure that exists; understood, never written.
pub(super) const STRUCTURE_8: u8 = 0xDC;
pub(super) const STRUCTURE_16: u8 = 0xDD;

pub(super) const TINY_STRING: u8 = 0x80;
pub(super) const TINY_LIST: u8 = 0x90;
pub(super) const TINY_DICT: u8 = 0xA0;
pub(super) const TINY_STRUCTURE: u8 = 0xB0;

/// The tags of structures that are values.
pub(super) mod structure {
    pub(crate) const NODE: u8 = b'N';
    pub(crate) const RELATIONSHIP: u8 = b'R';
    pub(crate) const UNBOUND_RELATIONSHIP: u8 = b'r';
    pub(crate) const PATH: u8 = b'P';
    pub(crate) const DATE: u8 = b'D';
    pub(crate) const TIME: u8 = b'T';
    pub(crate) const LOCAL_TIME: u8 = b't';
    pub(crate) const LEGACY_DATE_TIME: u8 = b'F';
    pub(crate) const DATE_TIME: u8 = b'I';
    pub(crate) const LEGACY_DATE_TIME_ZONE_ID: u8 = b'f';
    pub(crate) const DATE_TIME_ZONE_ID: u8 = b'i';
    pub(crate) const LOCAL_DATE_TIME: u8 = b'd';
    pub(crate) const DURATION: u8 = b'E';
    pub(crate) const POINT_2D: u8 = b'X';
    pub(crate) const POINT_3D: u8 = b'Y';
}
