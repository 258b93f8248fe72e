//! The OpenWOP HTTP surface.
