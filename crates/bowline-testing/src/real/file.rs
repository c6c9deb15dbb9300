//! The files in a control plane's directory. Owns their names and their contents at the start.

use std::io;

use super::Binaries;
use super::credentials::Credentials;
use super::directory::Directory;
use super::kubeconfig::kubeconfig;

pub(super) const AUTHORITY: &str = "ca.crt";
pub(super) const AUTHORITY_KEY: &str = "ca.key";
pub(super) const API_SERVER: &str = "apiserver.crt";
pub(super) const API_SERVER_KEY: &str = "apiserver.key";
pub(super) const KUBECONFIG: &str = "kubeconfig";
pub(super) const ADMIN: &str = "admin.crt";
pub(super) const ADMIN_KEY: &str = "admin.key";
pub(super) const ADMIN_TOKEN: &str = "admin.token";
pub(super) const TOKENS: &str = "tokens.csv";
pub(super) const SERVICE_ACCOUNT_KEY: &str = "service-account.key";
pub(super) const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "service-account.pub";
pub(super) const CONTROLLER_MANAGER: &str = "controller-manager.crt";
pub(super) const CONTROLLER_MANAGER_KEY: &str = "controller-manager.key";
pub(super) const CONTROLLER_MANAGER_KUBECONFIG: &str = "controller-manager.kubeconfig";
pub(super) const ETCD_AUTHORITY: &str = "etcd-ca.crt";
pub(super) const ETCD: &str = "etcd.crt";
pub(super) const ETCD_KEY: &str = "etcd.key";
pub(super) const ETCD_CLIENT: &str = "etcd-client.crt";
pub(super) const ETCD_CLIENT_KEY: &str = "etcd-client.key";
pub(super) const ETCD_DATA: &str = "etcd-data";
pub(super) const AUDIT_POLICY: &str = "audit-policy";
pub(super) const AUDIT_LOG: &str = "audit.log";

/// The name of a program's log.
pub(super) fn log(program: &str) -> String {
    format!("{program}.log")
}

/// Writes the files that do not depend on ports.
pub(super) fn write_credentials(directory: &Directory, credentials: &Credentials) -> io::Result<()> {
    let token = credentials.admin_token.expose();
    let tokens = format!("{token},kubernetes-admin,kubernetes-admin,\"system:masters\"\n");
    let (authority, authority_key) = (credentials.authority.certificate(), credentials.authority.key());
    let files = [
        (AUTHORITY, authority.as_str()),
        (AUTHORITY_KEY, authority_key.expose()),
        (API_SERVER, &credentials.api_server.certificate),
        (API_SERVER_KEY, credentials.api_server.key.expose()),
        (ADMIN, &credentials.admin.certificate),
        (ADMIN_KEY, credentials.admin.key.expose()),
        (ADMIN_TOKEN, token),
        (TOKENS, &tokens),
        (SERVICE_ACCOUNT_KEY, credentials.service_account_key.expose()),
        (SERVICE_ACCOUNT_PUBLIC_KEY, &credentials.service_account_public_key),
        (CONTROLLER_MANAGER, &credentials.controller_manager_server.certificate),
        (CONTROLLER_MANAGER_KEY, credentials.controller_manager_server.key.expose()),
        (ETCD_AUTHORITY, &credentials.etcd_authority.certificate()),
        (ETCD, &credentials.etcd_server.certificate),
        (ETCD_KEY, credentials.etcd_server.key.expose()),
        (ETCD_CLIENT, &credentials.etcd_client.certificate),
        (ETCD_CLIENT_KEY, credentials.etcd_client.key.expose()),
    ];
    files.iter().try_for_each(|(name, text)| directory.write(name, text).map(drop))
}

/// Writes the kubeconfigs.
pub(super) fn write_kubeconfigs(
    directory: &Directory,
    credentials: &Credentials,
    server: &str,
) -> io::Result<()> {
    let authority = credentials.authority.certificate();
    let admin = kubeconfig(server, &authority, "kubernetes-admin", &credentials.admin);
    directory.write(KUBECONFIG, &admin)?;
    let manager = "system:kube-controller-manager";
    let manager = kubeconfig(server, &authority, manager, &credentials.controller_manager);
    directory.write(CONTROLLER_MANAGER_KUBECONFIG, &manager)?;
    Ok(())
}

/// Removes the data of an etcd and all logs, for another start in the same directory.
pub(super) fn remove_data(directory: &Directory) -> io::Result<()> {
    let absent_is_fine = |result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    absent_is_fine(std::fs::remove_dir_all(directory.join(ETCD_DATA)))?;
    for program in [Binaries::ETCD, Binaries::KUBE_APISERVER, Binaries::KUBE_CONTROLLER_MANAGER] {
        absent_is_fine(std::fs::remove_file(directory.join(&log(program))))?;
    }
    Ok(())
}
