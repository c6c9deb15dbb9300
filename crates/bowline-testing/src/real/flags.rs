//! The command lines of the programs. Owns every flag and its reason.

use super::directory::Directory;
use super::file;

/// The ports of one control plane, on 127.0.0.1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) api_server: u16,
    pub(super) etcd: u16,
    pub(super) etcd_peer: u16,
    pub(super) controller_manager: u16,
}

const SERVICE_RANGE: &str = "10.0.0.0/24";

pub(super) fn etcd(directory: &Directory, ports: Ports) -> Vec<String> {
    let at = |name| directory.join(name).display().to_string();
    let (client, peer) = (ports.etcd, ports.etcd_peer);
    vec![
        "--name=bowline-real".to_owned(),
        format!("--data-dir={}", at(file::ETCD_DATA)),
        format!("--listen-client-urls=https://127.0.0.1:{client}"),
        format!("--advertise-client-urls=https://127.0.0.1:{client}"),
        format!("--listen-peer-urls=https://127.0.0.1:{peer}"),
        format!("--initial-advertise-peer-urls=https://127.0.0.1:{peer}"),
        format!("--initial-cluster=bowline-real=https://127.0.0.1:{peer}"),
        format!("--cert-file={}", at(file::ETCD)),
        format!("--key-file={}", at(file::ETCD_KEY)),
        "--client-cert-auth".to_owned(),
        format!("--trusted-ca-file={}", at(file::ETCD_AUTHORITY)),
        format!("--peer-cert-file={}", at(file::ETCD)),
        format!("--peer-key-file={}", at(file::ETCD_KEY)),
        "--peer-client-cert-auth".to_owned(),
        format!("--peer-trusted-ca-file={}", at(file::ETCD_AUTHORITY)),
        "--enable-grpc-gateway=false".to_owned(),
        // The data is of no use after a crash of the machine.
        "--unsafe-no-fsync".to_owned(),
        "--logger=zap".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

pub(super) fn kube_apiserver(directory: &Directory, ports: Ports, controller_manager: bool) -> Vec<String> {
    let at = |name| directory.join(name).display().to_string();
    let mut flags = vec![
        format!("--etcd-servers=https://127.0.0.1:{}", ports.etcd),
        format!("--etcd-cafile={}", at(file::ETCD_AUTHORITY)),
        format!("--etcd-certfile={}", at(file::ETCD_CLIENT)),
        format!("--etcd-keyfile={}", at(file::ETCD_CLIENT_KEY)),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.api_server),
        // Without it, the server needs the address of a network interface, and a sandbox has none.
        "--advertise-address=127.0.0.1".to_owned(),
        // Endpoints on loopback are invalid: each attempt to write them would fail.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--tls-cert-file={}", at(file::API_SERVER)),
        format!("--tls-private-key-file={}", at(file::API_SERVER_KEY)),
        format!("--client-ca-file={}", at(file::AUTHORITY)),
        format!("--token-auth-file={}", at(file::TOKENS)),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--service-cluster-ip-range={SERVICE_RANGE}"),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!("--service-account-key-file={}", at(file::SERVICE_ACCOUNT_PUBLIC_KEY)),
        format!("--service-account-signing-key-file={}", at(file::SERVICE_ACCOUNT_KEY)),
    ];
    if !controller_manager {
        // No controller creates the service account that this plugin requires for every pod.
        flags.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    flags
}

/// Further flags of an API server with an audit log.
pub(super) fn audit(directory: &Directory) -> [String; 2] {
    let at = |name| directory.join(name).display().to_string();
    [
        format!("--audit-policy-file={}", at(file::AUDIT_POLICY)),
        format!("--audit-log-path={}", at(file::AUDIT_LOG)),
    ]
}

pub(super) fn kube_controller_manager(directory: &Directory, ports: Ports) -> Vec<String> {
    let at = |name| directory.join(name).display().to_string();
    let kubeconfig = at(file::CONTROLLER_MANAGER_KUBECONFIG);
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.controller_manager),
        format!("--tls-cert-file={}", at(file::CONTROLLER_MANAGER)),
        format!("--tls-private-key-file={}", at(file::CONTROLLER_MANAGER_KEY)),
        // There is one replica; a lease would only delay it.
        "--leader-elect=false".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        format!("--service-account-private-key-file={}", at(file::SERVICE_ACCOUNT_KEY)),
        format!("--service-cluster-ip-range={SERVICE_RANGE}"),
        format!("--root-ca-file={}", at(file::AUTHORITY)),
        format!("--cluster-signing-cert-file={}", at(file::AUTHORITY)),
        format!("--cluster-signing-key-file={}", at(file::AUTHORITY_KEY)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: Ports = Ports { api_server: 1, etcd: 2, etcd_peer: 3, controller_manager: 4 };

    #[test]
    fn pods_need_a_service_account_only_with_a_controller_manager() {
        let directory = Directory::temporary().unwrap();
        let off = "--disable-admission-plugins=ServiceAccount".to_owned();
        assert!(kube_apiserver(&directory, PORTS, false).contains(&off));
        assert!(!kube_apiserver(&directory, PORTS, true).contains(&off));
    }

    #[test]
    fn nothing_listens_elsewhere_than_on_loopback_or_without_tls() {
        let directory = Directory::temporary().unwrap();
        let etcd = etcd(&directory, PORTS);
        let listens: Vec<_> = etcd.iter().filter(|flag| flag.starts_with("--listen-")).collect();
        assert_eq!(listens.len(), 2);
        assert!(listens.iter().all(|flag| flag.contains("=https://127.0.0.1:")), "{listens:?}");
        for flags in [kube_apiserver(&directory, PORTS, true), kube_controller_manager(&directory, PORTS)] {
            assert!(flags.contains(&"--bind-address=127.0.0.1".to_owned()));
        }
    }
}
