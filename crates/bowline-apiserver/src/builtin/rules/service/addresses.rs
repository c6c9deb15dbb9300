//! Addresses of services: one family, one range.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use bowline_machinery::{FieldError, FieldPath, Status, validate_service_addresses};
use bowline_storage::ListRequest;
use serde_json::{Value, json};

use super::{has_address, is_empty, is_headless, kind, set};
use crate::admission::Admission;

/// The range 10.0.0.0/24. Its first and last address are not allocated.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);
const FIRST: u8 = 1;
const LAST: u8 = 254;
/// Lower addresses are for services that request a certain one, while others are free.
const DYNAMIC: u8 = 17;

/// One address is in two fields, which must agree.
pub(super) fn agree(new: &mut Value, old: Option<&Value>) {
    let (one, all) = (new["spec"]["clusterIP"].clone(), new["spec"]["clusterIPs"].clone());
    let Some(old) = old else {
        if !is_empty(&one) && is_empty(&all) {
            set(new, "clusterIPs", json!([one]));
        }
        return;
    };
    let (old_one, old_all) = (&old["spec"]["clusterIP"], &old["spec"]["clusterIPs"]);
    if !is_empty(old_all) && is_empty(&all) && *old_one == one {
        set(new, "clusterIPs", old_all.clone());
    }
    if *old_one != one && *old_all == new["spec"]["clusterIPs"] {
        if is_empty(&one) {
            super::remove(new, "clusterIPs");
        } else {
            set(new, "clusterIPs", json!([one]));
        }
    }
}

/// IP families of the addresses, and whether a service may have two.
pub(super) fn families(
    admission: &Admission<'_>,
    new: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if !has_address(new) {
        return Ok(());
    }
    let headless = new["spec"]["clusterIP"] == "None";
    let without_selector = headless && is_empty(&new["spec"]["selector"]);
    if is_empty(&new["spec"]["ipFamilyPolicy"]) {
        let before = old.map(|old| old["spec"]["ipFamilyPolicy"].clone()).filter(|policy| !is_empty(policy));
        let policy = if without_selector { "RequireDualStack" } else { "SingleStack" };
        set(new, "ipFamilyPolicy", before.unwrap_or_else(|| policy.into()));
    }
    let errors = validate_service_addresses(new, old);
    if !errors.is_empty() {
        return Err(admission.invalid(new, &errors));
    }
    let spec = FieldPath::new("spec");
    let policy = new["spec"]["ipFamilyPolicy"].clone();
    let list = |field: &str| new["spec"][field].as_array().cloned().unwrap_or_default();
    let (addresses, mut families) = (list("clusterIPs"), list("ipFamilies"));
    let mut errors = Vec::new();
    if policy == "SingleStack" {
        for (several, what) in [(addresses.len() == 2, "cluster IPs"), (families.len() == 2, "IP families")] {
            if several {
                let detail = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                );
                errors.push(FieldError::invalid(&spec.child("ipFamilyPolicy"), policy.clone(), detail));
            }
        }
    }
    for (index, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
        if address == "None" {
            break;
        }
        if index < families.len() {
            continue;
        }
        if address.contains(':') {
            let path = spec.child("clusterIPs").index(index);
            errors.push(FieldError::invalid(
                &path,
                addresses.clone(),
                "IPv6 is not configured on this cluster",
            ));
        } else {
            families.push("IPv4".into());
        }
    }
    if !errors.is_empty() {
        return Err(admission.invalid(new, &errors));
    }
    if without_selector {
        if families.is_empty() {
            families.push("IPv4".into());
        }
        if families.len() < 2 && policy != "SingleStack" {
            families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.into());
        }
        set(new, "ipFamilies", families.into());
        return Ok(());
    }
    if policy == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid(&spec.child("ipFamilyPolicy"), policy, detail));
    }
    for (index, family) in families.iter().enumerate().filter(|(_, family)| **family != "IPv4") {
        let path = spec.child("ipFamilies").index(index);
        errors.push(FieldError::invalid(&path, family.clone(), "not configured on this cluster"));
    }
    if !errors.is_empty() {
        return Err(admission.invalid(new, &errors));
    }
    if families.is_empty() {
        families.push("IPv4".into());
    }
    set(new, "ipFamilies", families.into());
    Ok(())
}

/// Allocates an address, unless the service already has one.
pub(super) fn allocate(
    admission: &Admission<'_>,
    new: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let had_one = old.is_some_and(has_address);
    if !has_address(new) || had_one || is_headless(new) {
        return Ok(());
    }
    let taken = taken(admission);
    let asked = new["spec"]["clusterIPs"][0].as_str().unwrap_or_default().to_owned();
    if asked.is_empty() {
        let Some(address) = free(admission, &taken) else {
            let name = new["metadata"]["name"].as_str().unwrap_or_default();
            let why = format!("failed to allocate a serviceIP for Service {name:?}: range is full");
            return Err(Status::internal(why));
        };
        set(new, "clusterIP", address.to_string().into());
        set(new, "clusterIPs", json!([address.to_string()]));
        return Ok(());
    }
    let why = match asked.parse() {
        Ok(IpAddr::V4(address)) if !is_in_range(address) => {
            "the provided network does not match the current range".to_owned()
        }
        Ok(IpAddr::V4(address)) if taken.contains(&address) => "provided IP is already allocated".to_owned(),
        // Validation refuses a text that is not an address.
        _ => return Ok(()),
    };
    let detail = format!("failed to allocate IP {asked}: {why}");
    let path = FieldPath::new("spec").child("clusterIPs");
    let error = FieldError::invalid(&path, new["spec"]["clusterIPs"].clone(), detail);
    debug_assert_ne!(kind(new), "ExternalName", "a name has no address");
    Err(admission.invalid(new, &[error]))
}

fn is_in_range(address: Ipv4Addr) -> bool {
    let (network, last) = (NETWORK.octets(), address.octets()[3]);
    address.octets()[..3] == network[..3] && (FIRST..=LAST).contains(&last)
}

/// The addresses of all services.
fn taken(admission: &Admission<'_>) -> BTreeSet<Ipv4Addr> {
    let Ok(listing) = admission.store.list(admission.resource.table, ListRequest::default()) else {
        return BTreeSet::new();
    };
    let addresses = listing.items.iter().filter_map(|record| {
        let mut fields = record.meta.fields.iter();
        let (_, address) = fields.find(|(name, _)| &**name == "spec.clusterIP")?;
        address.parse().ok()
    });
    addresses.collect()
}

/// A free address: the first one after a random position.
fn free(admission: &Admission<'_>, taken: &BTreeSet<Ipv4Addr>) -> Option<Ipv4Addr> {
    let [a, b, c, _] = NETWORK.octets();
    let is_free = |last: &u8| !taken.contains(&Ipv4Addr::new(a, b, c, *last));
    let drawn = admission.clock.rng().range(u64::from(DYNAMIC)..u64::from(LAST) + 1);
    let start = u8::try_from(drawn).unwrap_or(DYNAMIC);
    let mut candidates = (start..=LAST).chain(DYNAMIC..start).chain(FIRST..DYNAMIC);
    candidates.find(is_free).map(|last| Ipv4Addr::new(a, b, c, last))
}
